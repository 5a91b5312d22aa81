//go:build tools

// Package tools names the programs that tests run against, so that their versions are pinned here.
package tools

import _ "go.etcd.io/etcd/server/v3"
