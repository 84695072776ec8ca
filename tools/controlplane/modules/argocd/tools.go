//go:build tools

// Package tools pins the program that drives our charts from a git repository in the tests: one
// program whose part follows the name by which it is called.
package tools

import _ "github.com/argoproj/argo-cd/v3/cmd"
