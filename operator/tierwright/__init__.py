"""Tierwright: a Kubernetes operator that serves one LLM at several speeds."""

__version__ = "0.1.0"
