//go:build tools

// Package tools names the kubelet that nodes are upgraded from in tests, so that its version is pinned here.
package tools

import _ "k8s.io/kubernetes/cmd/kubelet"
