"""Serves many requests from one set of executables: pure policies decide, the executor runs the device, the loop joins them."""
