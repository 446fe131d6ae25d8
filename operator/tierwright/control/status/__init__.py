"""What the operator reports on a tier, computed from one snapshot by pure functions; compute.py puts it together."""
