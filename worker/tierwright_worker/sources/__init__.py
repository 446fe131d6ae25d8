"""Fetches a model's files onto a volume: hubs, buckets and folders; whole and checked, or not at all."""
