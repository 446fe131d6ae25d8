//go:build tools

// Package tools pins kwok in go.mod, from where its command is built.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
