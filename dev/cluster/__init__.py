"""A real Kubernetes on this machine for development, tests and demo; `python -m dev.cluster --help` is its front door."""
