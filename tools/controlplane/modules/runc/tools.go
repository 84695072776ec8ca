//go:build tools

// Package tools pins the program that starts the containers of the real node.
package tools

import _ "github.com/opencontainers/runc"
