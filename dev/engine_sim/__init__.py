"""A stand-in for a vLLM server: same HTTP API, command line and metrics, latency from a step-time model."""
