"""The worker's image."""
