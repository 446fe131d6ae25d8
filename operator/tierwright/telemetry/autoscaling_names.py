"""Names of the metrics about autoscaling; the rules, alerts and dashboard of the chart are written against these.

Each has the labels `namespace` and `name` of the tier, and those that are named here.
"""

from typing import Final

TIER_LABELS: Final = ("namespace", "name")

FIRST_TOKEN: Final = "tierwright_tier_time_to_first_token_seconds"  # noqa: S105 - no password
PER_TOKEN: Final = "tierwright_tier_time_per_output_token_seconds"  # noqa: S105 - no password
PERCENTILES: Final = ("50", "95", "99")
"""Values of the label `percentile` of the two above."""
OBJECTIVE: Final = "tierwright_tier_objective_seconds"
PROMISE: Final = "tierwright_tier_promised_attainment_ratio"
JUDGED: Final = "tierwright_tier_judged_requests_total"
MISSED: Final = "tierwright_tier_missed_requests_total"

DESIRED: Final = "tierwright_tier_desired_replicas"
READY: Final = "tierwright_tier_ready_replicas"
STARTING: Final = "tierwright_tier_starting_replicas"
FAILING: Final = "tierwright_tier_failing_replicas"
UNPLACED: Final = "tierwright_tier_unplaced_replicas"
RECOMMENDED: Final = "tierwright_tier_recommended_replicas"
MINIMUM: Final = "tierwright_tier_minimum_replicas"
MAXIMUM: Final = "tierwright_tier_maximum_replicas"

DECISIONS: Final = "tierwright_decisions_total"
DEMAND: Final = "tierwright_decision_demand_replicas"
EXPECTED: Final = "tierwright_decision_expected_replicas"
HORIZON: Final = "tierwright_decision_horizon_seconds"
ALLOWED: Final = "tierwright_decision_allowed_miss_ratio"
MISSING: Final = "tierwright_decision_expected_miss_ratio"
FLOOR: Final = "tierwright_decision_unavoidable_miss_ratio"
HOLDS: Final = "tierwright_decision_load_limit_ratio"
BACKLOG: Final = "tierwright_decision_backlog_requests"
RATE: Final = "tierwright_decision_arrivals_per_second"
FORECAST_ERROR: Final = "tierwright_forecast_error_replicas"
FORECAST_ABSOLUTE_ERROR: Final = "tierwright_forecast_absolute_error_replicas"

ACCELERATOR_SECONDS: Final = "tierwright_tier_accelerator_seconds_total"
REPLICA_SECONDS: Final = "tierwright_tier_replica_seconds_total"
COST: Final = "tierwright_tier_cost_total"
START_SECONDS: Final = "tierwright_tier_start_seconds"
START_PERCENTILES: Final = ("50", "90")

SCRAPES: Final = "tierwright_pod_scrapes_total"
SCRAPE_FAILURES: Final = "tierwright_pod_scrape_failures_total"
PAGE_FAULTS: Final = "tierwright_page_faults_total"
NEWEST_SAMPLE: Final = "tierwright_tier_newest_sample_timestamp_seconds"

OTHER: Final = "Other"
"""Value of the labels `reason`, `cause` and `kind` for a word that was not declared, so that no series come up unasked."""
