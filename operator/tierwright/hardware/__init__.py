"""Where a tier may run: one file per accelerator turns the spec into resources, selectors and tolerations."""
