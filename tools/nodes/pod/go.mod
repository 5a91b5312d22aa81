module kubenode.io/tools/nodes/pod

go 1.24.0
