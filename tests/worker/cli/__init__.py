"""The command that a pod runs."""
