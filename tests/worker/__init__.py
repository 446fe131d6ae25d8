"""Tests of the JAX worker; dev/test_worker.sh runs them in the environment that holds JAX."""
