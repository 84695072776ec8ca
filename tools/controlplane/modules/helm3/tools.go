//go:build tools

// Package tools pins the Helm 3 with which the charts are tested beside the present Helm.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
