//go:build tools

// Package tools pins the Helm command that renders and installs the charts in tests and demo.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
