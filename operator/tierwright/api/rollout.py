"""How pods are replaced: strategy, surge, time to drain and time to start."""

from typing import Literal

from tierwright.api.base import ApiModel
from tierwright.api.scalars import Duration, Percentage


class RolloutSpec(ApiModel):
    """How a change reaches the pods."""

    strategy: Literal["RollingUpdate", "Recreate"] | None = None
    """Default: RollingUpdate; Recreate when a shared ReadWriteOnce volume is mounted."""
    max_surge: Percentage | None = None
    """Extra pods during a rollout; default 0, since accelerator pools have no spare device."""
    max_unavailable: Percentage | None = None
    """Pods that may be missing during a rollout; default 1."""
    drain_timeout: Duration = "5m"
    """How long requests in flight may take to finish once a pod is told to stop."""
    startup_timeout: Duration = "30m"
    """How long a pod may take from start to ready before it is restarted."""
