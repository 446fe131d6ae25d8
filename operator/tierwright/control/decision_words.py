"""Says a decision of the capacity policy in the API's words: reason, figures to two digits, whether it follows the load."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tierwright.api.conditions import Reason
from tierwright.capacity.decision import Decision
from tierwright.capacity.decision import Reason as Why

REASONS: Final[Mapping[Why, Reason]] = {
    Why.STEADY: Reason.STEADY,
    Why.DEMAND_GREW: Reason.DEMAND_GREW,
    Why.DEMAND_FELL: Reason.DEMAND_FELL,
    Why.FORECAST_HOLDS: Reason.FORECAST_HOLDS,
    Why.WINDOW_NOT_FULL: Reason.WINDOW_NOT_FULL,
    Why.NO_METRICS: Reason.METRICS_UNAVAILABLE,
    Why.PARTIAL_METRICS: Reason.PARTIAL_METRICS,
    Why.STARTING: Reason.STARTING,
    Why.STARTS_FAIL: Reason.STARTS_FAIL,
    Why.POOL_FULL: Reason.POOL_FULL,
    Why.AT_MAXIMUM: Reason.AT_MAXIMUM,
    Why.AT_MINIMUM: Reason.AT_MINIMUM,
    Why.STEP_LIMITED: Reason.STEP_LIMITED,
    Why.IDLE: Reason.IDLE,
    Why.WOKEN: Reason.WOKEN,
}
"""The condition's reason for each of the policy's."""
SCALING_REASONS: Final = frozenset({*REASONS.values(), Reason.LEARNED_STATE_UNREADABLE})


@dataclass(frozen=True, slots=True)
class Words:
    """What ScalingActive says of a decision."""

    reason: Reason
    message: str
    follows_load: bool


def words_of(decision: Decision, trouble: str = "", promised: float | None = None) -> Words:
    """Reason, sentence and figures; `trouble`: which pods do not tell, `promised`: the share that must meet the objectives.

    A promise that no number of replicas keeps is told, since more of them are not asked for. The figures stand at the end
    as `name=value`, so that a script can take them out of the condition.
    """
    told = [_sentence(decision)]
    if trouble and decision.reason in (Why.NO_METRICS, Why.PARTIAL_METRICS):
        told.append(trouble)
    if words := _out_of_reach(decision, promised):
        told.append(words)
    figures = " ".join(f"{name}={value}" for name, value in _figures(decision).items())
    return Words(
        REASONS[decision.reason], f"{'; '.join(told)} ({figures})", decision.reason is not Why.NO_METRICS
    )


def two_digits(value: float) -> str:
    """The number with two digits that count, without an exponent: 0.0123 is 0.012, 1234 is 1200."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.1e}")
    return f"{rounded:.12f}".rstrip("0").rstrip(".")


def _sentence(decision: Decision) -> str:
    inputs, plan = decision.inputs, decision.inputs.plan
    count = inputs.wanted if decision.replicas is None else decision.replicas
    kept = "kept" if count == inputs.wanted else f"asked for instead of {inputs.wanted}"
    number = f"{count} replica{'' if count == 1 else 's'} {kept}"
    if decision.reason is Why.IDLE and count == 0:
        return f"{number}: no request comes"
    if plan is None:
        return f"{number}: nothing was measured"
    line = (
        f"{number}: the load of {two_digits(plan.demand)} replicas at their limit arrives, of {two_digits(plan.expected)} "
        f"is expected in {two_digits(plan.horizon)} s, and objectives hold up to {two_digits(plan.holds)} of the limit"
    )
    return f"{line}; no room for {decision.unplaced} more" if decision.unplaced else line


def _out_of_reach(decision: Decision, promised: float | None) -> str:
    plan = decision.inputs.plan
    if plan is None or promised is None or plan.floor <= 1 - promised:
        return ""
    return (
        f"about {two_digits(100 * plan.floor)}% of requests miss the objectives with any number of replicas, and "
        f"{two_digits(100 * (1 - promised))}% may: loosen scaling.objectives or scaling.attainment, or take a faster engine"
    )


def _figures(decision: Decision) -> dict[str, str]:
    inputs, plan = decision.inputs, decision.inputs.plan
    figures = {
        "ready": str(inputs.ready),
        "starting": str(inputs.starting),
        "failing": str(inputs.failing),
        "wanted": str(inputs.wanted),
        "unplaced": str(decision.unplaced),
    }
    if plan is not None:
        named = {
            "rate": plan.rate,
            "backlog": plan.backlog,
            "demand": plan.demand,
            "expected": plan.expected,
            "horizon": plan.horizon,
            "missing": plan.missing,
            "allowed": plan.allowed,
            "price": plan.price,
            "floor": plan.floor,
            "holds": plan.holds,
        }
        figures |= {name: two_digits(value) for name, value in named.items()}
    return figures
