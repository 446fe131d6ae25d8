"""Rules on how pods are replaced: a rollout must be able to move, and must not contradict its strategy."""

from typing import Final

from tierwright.api.rollout import RolloutSpec
from tierwright.api.rules.cache import SHARED_ON_ONE_NODE_CEL, shared_on_one_node
from tierwright.api.rules.rule import AnyRule, Rule
from tierwright.api.scalars import duration_seconds
from tierwright.api.tier import TierSpec

_ZEROS: Final = ("0", "0%")
_DAY_SECONDS: Final = 86400


def _zero_cel(field: str) -> str:
    return f"(string({field}) == '0' || string({field}) == '0%')"


def _can_move(rollout: RolloutSpec) -> bool:
    return not (
        rollout.max_unavailable in _ZEROS and (rollout.max_surge is None or rollout.max_surge in _ZEROS)
    )


def _recreate_without_steps(rollout: RolloutSpec) -> bool:
    return rollout.strategy != "Recreate" or (rollout.max_surge is None and rollout.max_unavailable is None)


def _steps_have_a_strategy(spec: TierSpec) -> bool:
    steps = spec.rollout.max_surge is not None or spec.rollout.max_unavailable is not None
    return not (steps and spec.rollout.strategy is None and shared_on_one_node(spec))


def _no_surge_on_one_node(spec: TierSpec) -> bool:
    surge = spec.rollout.max_surge
    return surge is None or surge in _ZEROS or not shared_on_one_node(spec)


RULES: Final[tuple[AnyRule, ...]] = (
    Rule[RolloutSpec](
        at="spec.rollout",
        field="maxUnavailable",
        cel=(
            f"!(has(self.maxUnavailable) && {_zero_cel('self.maxUnavailable')} && "
            f"(!has(self.maxSurge) || {_zero_cel('self.maxSurge')}))"
        ),
        message=(
            "a rollout cannot move with maxSurge and maxUnavailable both zero (maxSurge is zero when left out); "
            "set maxUnavailable: 1, or maxSurge: 1 where the pool has a spare device"
        ),
        holds=_can_move,
    ),
    Rule[RolloutSpec](
        at="spec.rollout",
        field="strategy",
        cel=(
            "!has(self.strategy) || self.strategy != 'Recreate' || "
            "(!has(self.maxSurge) && !has(self.maxUnavailable))"
        ),
        message="strategy Recreate stops all pods first; remove maxSurge and maxUnavailable or use RollingUpdate",
        holds=_recreate_without_steps,
    ),
    Rule[TierSpec](
        at="spec",
        field="rollout.strategy",
        cel=(
            "has(self.rollout.strategy) || (!has(self.rollout.maxSurge) && !has(self.rollout.maxUnavailable)) || "
            f"!{SHARED_ON_ONE_NODE_CEL}"
        ),
        message=(
            "with a shared volume that one node mounts at a time the strategy is Recreate, which takes no steps; "
            "set strategy: RollingUpdate, or remove maxSurge and maxUnavailable"
        ),
        holds=_steps_have_a_strategy,
    ),
    Rule[TierSpec](
        at="spec",
        field="rollout.maxSurge",
        cel=(
            f"!has(self.rollout.maxSurge) || {_zero_cel('self.rollout.maxSurge')} || !{SHARED_ON_ONE_NODE_CEL}"
        ),
        message=(
            "an extra pod could not mount the shared volume, which one node mounts at a time; set maxSurge: 0, "
            "or accessMode: ReadWriteMany"
        ),
        holds=_no_surge_on_one_node,
    ),
    Rule[RolloutSpec](
        at="spec.rollout",
        field="startupTimeout",
        cel=(
            "duration(self.startupTimeout) >= duration('10s') && duration(self.startupTimeout) <= duration('24h')"
        ),
        message="startupTimeout lies outside 10s to 24h; a pod that needs longer is restarted for ever",
        holds=lambda rollout: 10 <= duration_seconds(rollout.startup_timeout) <= _DAY_SECONDS,
    ),
    Rule[RolloutSpec](
        at="spec.rollout",
        field="drainTimeout",
        cel="duration(self.drainTimeout) <= duration('24h')",
        message="drainTimeout is above 24h; a node could not be emptied in that time",
        holds=lambda rollout: duration_seconds(rollout.drain_timeout) <= _DAY_SECONDS,
    ),
)
