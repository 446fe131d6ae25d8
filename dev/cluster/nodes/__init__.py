"""Real nodes: containerd and kubelet as processes of this machine."""
