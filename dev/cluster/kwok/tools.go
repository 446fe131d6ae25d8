//go:build tools

// Package tools pins kwok in go.mod; dev/cluster/build.py builds its command from there.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
