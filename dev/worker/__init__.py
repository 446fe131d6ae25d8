"""Tools for the worker's developers: the reference records of its parity tests."""
