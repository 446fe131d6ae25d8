"""What should exist: the Kubernetes objects that one tier owns, one file per kind."""
