"""Decides when a status shows new scaling: a number at once, words and figures once a minute, nothing while idle."""

import math
from dataclasses import dataclass, replace
from typing import Final

from tierwright.api.conditions import ConditionType, Reason
from tierwright.api.status import TierStatus
from tierwright.control.decision_words import SCALING_REASONS, two_digits
from tierwright.control.scaler import advised
from tierwright.observe.snapshot import LatencyView, ScalingView

BETWEEN_CHANGES: Final = 60.0
"""Seconds between two changes of words or of figures."""
BETWEEN_REPEATS: Final = 300.0
"""Seconds until the same reason is told again with newer figures."""
_STEP: Final = 0.08
"""Relative change below which a figure stays: two digits would else flip to and fro between neighbours."""
_MISS_STEP: Final = 0.1
"""The same for the share of requests that missed."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured, unrounded; seconds and shares."""

    first_token_p95: float | None = None
    per_token_p95: float | None = None
    attained: float | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """What stands in the status, and since when."""

    view: ScalingView
    figures: Figures
    words_at: float
    figures_at: float


def shown(
    before: Shown | None,
    fresh: ScalingView,
    figures: Figures,
    *,
    promised: float,
    idle: bool,
    now: float,
) -> Shown:
    """What is shown from now on. `fresh` needs no latency; `promised`: share of requests that must meet the objectives."""
    if before is None:
        latency = LatencyView() if idle else latency_view(figures, promised)
        return Shown(replace(fresh, latency=latency), Figures() if idle else figures, now, now)
    after = before
    if _words_change(before, fresh, idle, now):
        after = replace(after, view=replace(fresh, latency=after.view.latency), words_at=now)
    if (fresh.warnings, fresh.instead_of) != (after.view.warnings, after.view.instead_of):
        view = replace(after.view, warnings=fresh.warnings, instead_of=fresh.instead_of)
        after = replace(after, view=view)
    first = before.figures == Figures()
    if (
        not idle
        and (first or now - before.figures_at >= BETWEEN_CHANGES)
        and _differ(before.figures, figures)
    ):
        latency = latency_view(figures, promised)
        if latency != after.view.latency:
            after = replace(after, view=replace(after.view, latency=latency), figures=figures, figures_at=now)
    return after


def remembered(status: TierStatus, generation: int, now: float) -> Shown | None:
    """What an operator before this one showed of the same spec, so that a restart rewrites nothing; None where it did not.

    Figures stay in the status as they are until newer ones are there.
    """
    told = next((each for each in status.conditions if each.type == ConditionType.SCALING_ACTIVE), None)
    if told is None or told.observed_generation != generation:
        return None
    follows = told.status == "True"
    reason, message = told.reason, told.message
    if reason == Reason.RECOMMENDING:
        reason, message = advised(message) or (reason, message)
        follows = reason != Reason.METRICS_UNAVAILABLE
    if reason not in SCALING_REASONS:
        return None
    view = ScalingView(
        wanted=status.desired_replicas if told.status == "True" else None,
        recommended=status.recommended_replicas,
        reason=Reason(reason),
        message=message,
        follows_load=follows,
    )
    return Shown(view, Figures(), now, now)


def latency_view(figures: Figures, promised: float) -> LatencyView:
    """The figures as texts of two digits."""
    return LatencyView(
        first_token_p95=None if figures.first_token_p95 is None else duration_text(figures.first_token_p95),
        per_token_p95=None if figures.per_token_p95 is None else duration_text(figures.per_token_p95),
        attained=None if figures.attained is None else share_text(figures.attained),
        kept=None if figures.attained is None else figures.attained >= promised,
    )


def duration_text(seconds: float) -> str:
    """Two digits and the unit that fits, such as `340ms`, `1.2s`, `45s`."""
    if float(f"{seconds:.1e}") < 1:
        return f"{two_digits(seconds * 1000)}ms"
    return f"{two_digits(seconds)}s"


def share_text(share: float) -> str:
    """Per cent; two digits of what missed, cut off towards more misses, so that `100%` means that none missed."""
    missed = 100 * (1 - share)
    if missed < 1e-7:
        return "100%"
    digits = 0 if missed >= 10 else 1 if missed >= 1 else 2
    step: float = 10.0**-digits
    return f"{math.floor((100 - missed) / step + 1e-6) * step:.{digits}f}%"


def _words_change(before: Shown, fresh: ScalingView, idle: bool, now: float) -> bool:
    old = before.view
    if (old.wanted, old.recommended, old.follows_load) != (
        fresh.wanted,
        fresh.recommended,
        fresh.follows_load,
    ):
        return True
    waited = now - before.words_at
    if old.reason != fresh.reason:
        # That nothing was measured yet is news only until something was, or cannot be.
        return waited >= BETWEEN_CHANGES or old.reason is Reason.START_VALUE
    stale = old.message != fresh.message and waited >= BETWEEN_REPEATS
    return stale and (not idle or not fresh.follows_load)


def _differ(old: Figures, new: Figures) -> bool:
    return (
        _far(old.first_token_p95, new.first_token_p95, _STEP)
        or _far(old.per_token_p95, new.per_token_p95, _STEP)
        or _far(_missed(old), _missed(new), _MISS_STEP)
    )


def _missed(figures: Figures) -> float | None:
    return None if figures.attained is None else 1 - figures.attained


def _far(old: float | None, new: float | None, step: float) -> bool:
    if old is None or new is None:
        return old is not new
    return abs(new - old) > step * max(old, new)
