"""Makes the property tests repeatable and patient: the same examples on every run, no deadline on a busy machine."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "worker", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("worker")
