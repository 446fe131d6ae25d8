"""The benchmark: its arithmetic, its order of work, and a run from end to end with a tiny model."""
