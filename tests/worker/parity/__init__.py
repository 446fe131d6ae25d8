"""The worker computes what transformers computes."""
