//go:build tools

// Package tools pins Kueue's manager, beside which the tests run our scheduler.
package tools

import _ "sigs.k8s.io/kueue/cmd/kueue"
