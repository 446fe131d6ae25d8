"""A real Kubernetes on this machine for development, tests and the demo; `python -m dev.cluster --help` is its front door."""
