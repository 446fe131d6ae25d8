"""How an engine is told: one file per engine turns the spec into arguments, environment and probes."""
