"""What developers, tests and the demo need and no installation ships: a local Kubernetes and an engine simulator."""
