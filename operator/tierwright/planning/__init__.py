"""What a tier would need for a trace: a model of a fleet of engines in which the autoscaler's own decisions are replayed. Pure."""
