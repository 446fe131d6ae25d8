"""The kernels for processors."""
