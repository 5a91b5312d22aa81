//go:build tools

// Package tools names the programs that run on nodes in tests, so that their versions are pinned here.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
