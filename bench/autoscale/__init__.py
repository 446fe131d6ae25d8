"""The autoscaling benchmark: traces, a cheap model for tuning, the referee, published rules, and the report."""
