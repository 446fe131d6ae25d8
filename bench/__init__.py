"""Benchmarks of Tierwright. `worker`: the JAX worker against itself, and against other engines on the same machine."""
