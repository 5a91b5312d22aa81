//go:build tools

// Package tools names the node problem detector that runs on nodes in tests, so that its version is pinned here.
package tools

import _ "k8s.io/node-problem-detector/cmd/nodeproblemdetector"
