"""Property tests here are the same in every run, and slow machines do not fail them."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "tierwright", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tierwright")
