"""Turns a tier's spec into what the autoscaler takes: bounds, promise, objectives in seconds."""

from dataclasses import dataclass, replace
from typing import Final

from tierwright.api.scalars import duration_seconds
from tierwright.api.tier import InferenceTier
from tierwright.capacity.settings import TierSettings
from tierwright.control.pod_samples import LatencyObjectives

_MOST_REPLICAS: Final = 1000
"""What the API allows; the bound of a recommendation that has no other."""
_MOST_ATTAINMENT: Final = 0.9999
"""A promise of all requests leaves nothing to miss, so no number of replicas would ever be enough."""


@dataclass(frozen=True, slots=True)
class LoopTiming:
    """Seconds: how often the loop decides, how old a sample may be by then, how often what was learned is written."""

    tick: float = 10.0
    lag: float = 3.0
    between_writes: float = 300.0


def tier_settings(tier: InferenceTier, timing: LoopTiming) -> TierSettings:
    """The settings of one tier.

    A recommendation never goes to zero unless `minReplicas: 0` asks for it, as in mode Auto.
    """
    scaling = tier.spec.scaling
    minimum = scaling.fewest_in_auto
    maximum = _MOST_REPLICAS if scaling.max_replicas is None else scaling.max_replicas
    settings = TierSettings(
        minimum=min(minimum, maximum),
        maximum=maximum,
        attainment=min(_MOST_ATTAINMENT, float(scaling.attainment)),
        accelerator=tier.spec.hardware.accelerator.value,
        hold=duration_seconds(scaling.scale_down.stabilization),
        tick=timing.tick,
        lag=timing.lag,
    )
    if scaling.cold_start is None:
        return settings
    return replace(settings, cold_start=duration_seconds(scaling.cold_start))


def latency_objectives(tier: InferenceTier) -> LatencyObjectives:
    """The tier's objectives in seconds."""
    wanted = tier.spec.scaling.objectives
    if wanted is None:
        return LatencyObjectives(None, None)
    first, per_token = wanted.time_to_first_token, wanted.time_per_output_token
    return LatencyObjectives(
        None if first is None else duration_seconds(first),
        None if per_token is None else duration_seconds(per_token),
    )


def has_objectives(tier: InferenceTier) -> bool:
    """Whether the tier promises any latency; only then is it measured."""
    objectives = latency_objectives(tier)
    return objectives.first_token is not None or objectives.per_token is not None
