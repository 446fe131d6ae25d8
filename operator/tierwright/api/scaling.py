"""How many replicas a tier has, and the latency that it promises."""

from typing import Annotated, Literal

from pydantic import Field

from tierwright.api.base import ApiModel
from tierwright.api.scalars import Duration, Fraction, PositiveDecimal


class Objectives(ApiModel):
    """Latency that the tier promises for each request; needed in modes Auto and Recommend."""

    time_to_first_token: Duration | None = None
    """From the arrival of a request to its first token."""
    time_per_output_token: Duration | None = None
    """Mean time between output tokens of one request."""


class ScaleDown(ApiModel):
    """How carefully replicas are taken away."""

    stabilization: Duration = "10m"
    """A smaller number must be enough for this long before a replica goes; at most 24h."""


class Cost(ApiModel):
    """What a replica costs."""

    per_replica_hour: PositiveDecimal
    """Price of one replica for one hour, in the cluster's currency."""


class ScalingSpec(ApiModel):
    """Who sets the number of replicas, and within which bounds."""

    mode: Literal["Auto", "Recommend", "Manual"] = "Manual"
    """Who sets the replicas. Auto: the operator. Manual: spec.replicas. Recommend: as Manual, with the operator's own number in status.recommendedReplicas."""
    min_replicas: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Fewest replicas; default 1 in mode Auto, no bound in the others."""
    max_replicas: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Most replicas; required in mode Auto."""
    objectives: Objectives | None = None
    """Latency objectives; required in modes Auto and Recommend. Condition ObjectivesMet tells whether they are kept."""
    attainment: Fraction = "0.95"
    """Share of requests that must meet all objectives."""
    cold_start: Duration | None = None
    """First guess of the time from pod creation to ready; the measured value replaces it."""
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """Who gets devices first when tiers share a pool; higher first."""
    scale_down: ScaleDown = ScaleDown()
    """Care when scaling down."""
    cost: Cost | None = None
    """Price of a replica, for the metric of what a tier costs."""

    @property
    def fewest_in_auto(self) -> int:
        """Fewest replicas in mode Auto."""
        return 1 if self.min_replicas is None else self.min_replicas

    def bounded_in_auto(self, replicas: int) -> int:
        """The number, or the bound of mode Auto that it passes."""
        enough = max(replicas, self.fewest_in_auto)
        return enough if self.max_replicas is None else min(enough, self.max_replicas)
