"""Rules on the number of replicas: bounds, what each mode needs, who may write spec.replicas."""

from decimal import Decimal
from typing import Final

from tierwright.api.rules.rule import AnyRule, Rule, TransitionRule
from tierwright.api.scalars import duration_seconds
from tierwright.api.scaling import Objectives, ScaleDown, ScalingSpec
from tierwright.api.tier import TierSpec

_DAY_SECONDS: Final = 24 * 3600


def _bounds_in_order(scaling: ScalingSpec) -> bool:
    low, high = scaling.min_replicas, scaling.max_replicas
    return low is None or high is None or low <= high


def _has_objective(scaling: ScalingSpec) -> bool:
    wanted = scaling.objectives
    return wanted is not None and (
        wanted.time_to_first_token is not None or wanted.time_per_output_token is not None
    )


def _not_below_bounds(spec: TierSpec) -> bool:
    low = spec.scaling.min_replicas
    return spec.scaling.mode == "Auto" or low is None or spec.replicas >= low


def _not_above_bounds(spec: TierSpec) -> bool:
    high = spec.scaling.max_replicas
    return spec.scaling.mode == "Auto" or high is None or spec.replicas <= high


def _replicas_left_alone(old: TierSpec, new: TierSpec) -> bool:
    both_auto = old.scaling.mode == "Auto" and new.scaling.mode == "Auto"
    return not both_auto or new.replicas in (old.replicas, 1)


def _time_to_first_token_positive(objectives: Objectives) -> bool:
    return objectives.time_to_first_token is None or duration_seconds(objectives.time_to_first_token) > 0


def _time_per_output_token_positive(objectives: Objectives) -> bool:
    return objectives.time_per_output_token is None or duration_seconds(objectives.time_per_output_token) > 0


RULES: Final[tuple[AnyRule, ...]] = (
    Rule[ScalingSpec](
        at="spec.scaling",
        field="minReplicas",
        cel="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
        message="minReplicas is above maxReplicas; lower it or raise maxReplicas",
        holds=_bounds_in_order,
    ),
    Rule[ScalingSpec](
        at="spec.scaling",
        field="maxReplicas",
        cel="self.mode != 'Auto' || has(self.maxReplicas)",
        message="mode Auto needs maxReplicas; set the most replicas that you are ready to pay for",
        holds=lambda scaling: scaling.mode != "Auto" or scaling.max_replicas is not None,
        reason="FieldValueRequired",
    ),
    Rule[ScalingSpec](
        at="spec.scaling",
        field="objectives",
        cel=(
            "self.mode == 'Manual' || (has(self.objectives) && "
            "(has(self.objectives.timeToFirstToken) || has(self.objectives.timePerOutputToken)))"
        ),
        message="modes Auto and Recommend need an objective; set timeToFirstToken, timePerOutputToken or both",
        holds=lambda scaling: scaling.mode == "Manual" or _has_objective(scaling),
        reason="FieldValueRequired",
    ),
    Rule[Objectives](
        at="spec.scaling.objectives",
        field="timeToFirstToken",
        cel="!has(self.timeToFirstToken) || duration(self.timeToFirstToken) > duration('0s')",
        message="no request can meet an objective of zero; set a time above zero",
        holds=_time_to_first_token_positive,
    ),
    Rule[Objectives](
        at="spec.scaling.objectives",
        field="timePerOutputToken",
        cel="!has(self.timePerOutputToken) || duration(self.timePerOutputToken) > duration('0s')",
        message="no request can meet an objective of zero; set a time above zero",
        holds=_time_per_output_token_positive,
    ),
    Rule[ScalingSpec](
        at="spec.scaling",
        field="attainment",
        cel="double(self.attainment) > 0.0",
        message="an attainment of zero promises nothing; set a share above zero, such as 0.95",
        holds=lambda scaling: Decimal(scaling.attainment) > 0,
    ),
    Rule[ScalingSpec](
        at="spec.scaling",
        field="coldStart",
        cel="!has(self.coldStart) || duration(self.coldStart) > duration('0s')",
        message="no pod starts in zero time; leave coldStart out or set a guess above zero",
        holds=lambda scaling: scaling.cold_start is None or duration_seconds(scaling.cold_start) > 0,
    ),
    Rule[ScalingSpec](
        at="spec.scaling",
        field="coldStart",
        cel="!has(self.coldStart) || duration(self.coldStart) <= duration('24h')",
        message="coldStart is above 24h, which no startupTimeout allows; set a guess that a start can take",
        holds=lambda scaling: (
            scaling.cold_start is None or duration_seconds(scaling.cold_start) <= _DAY_SECONDS
        ),
    ),
    Rule[ScaleDown](
        at="spec.scaling.scaleDown",
        field="stabilization",
        cel="duration(self.stabilization) <= duration('24h')",
        message=(
            "stabilization is above 24h; to keep replicas for longer than a day set scaling.minReplicas, or mode Manual"
        ),
        holds=lambda down: duration_seconds(down.stabilization) <= _DAY_SECONDS,
    ),
    Rule[TierSpec](
        at="spec",
        field="replicas",
        cel=(
            "self.scaling.mode == 'Auto' || !has(self.scaling.minReplicas) || "
            "self.replicas >= self.scaling.minReplicas"
        ),
        message="replicas is below scaling.minReplicas; raise it or lower scaling.minReplicas",
        holds=_not_below_bounds,
    ),
    Rule[TierSpec](
        at="spec",
        field="replicas",
        cel=(
            "self.scaling.mode == 'Auto' || !has(self.scaling.maxReplicas) || "
            "self.replicas <= self.scaling.maxReplicas"
        ),
        message="replicas is above scaling.maxReplicas; lower it or raise scaling.maxReplicas",
        holds=_not_above_bounds,
    ),
    # The default passes, since that is what leaving the field out of a manifest looks like here.
    TransitionRule[TierSpec](
        at="spec",
        field="replicas",
        cel=(
            "self.scaling.mode != 'Auto' || oldSelf.scaling.mode != 'Auto' || "
            "self.replicas == oldSelf.replicas || self.replicas == 1"
        ),
        message="the operator sets the replicas in mode Auto; to set them yourself, set scaling.mode: Manual",
        holds=_replicas_left_alone,
        reason="FieldValueForbidden",
    ),
)
