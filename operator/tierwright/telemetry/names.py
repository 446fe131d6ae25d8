"""Names and labels of all metrics that the operator serves; dashboards and alerts are written against these."""

from typing import Final

RECONCILES: Final = "tierwright_reconciles_total"
RECONCILE_SECONDS: Final = "tierwright_reconcile_duration_seconds"
QUEUE_DEPTH: Final = "tierwright_queue_depth"
QUEUE_OLDEST: Final = "tierwright_queue_oldest_overdue_seconds"
API_REQUESTS: Final = "tierwright_api_requests_total"
API_SECONDS: Final = "tierwright_api_request_duration_seconds"
APPLIES: Final = "tierwright_applies_total"
DRIFT: Final = "tierwright_drift_total"
ERRORS: Final = "tierwright_errors_total"
EVENTS: Final = "tierwright_events_total"
TIER_CONDITION: Final = "tierwright_tier_condition"
STORE_OBJECTS: Final = "tierwright_store_objects"
RESYNCS: Final = "tierwright_resyncs_total"
RESYNC_TIME: Final = "tierwright_resync_last_success_timestamp_seconds"
RESYNC_REPAIRS: Final = "tierwright_resync_repairs_total"
WATCH_RESTARTS: Final = "tierwright_watch_restarts_total"
BUILD_INFO: Final = "tierwright_build_info"

CONDITION_STATUSES: Final = ("True", "False", "Unknown")
