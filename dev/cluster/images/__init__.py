"""Container images without Docker and without a registry."""
