//go:build tools

// Package tools pins the KWOK command that keeps the fake nodes of the test control plane alive.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
