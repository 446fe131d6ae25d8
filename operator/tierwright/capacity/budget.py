"""Shares the accelerators of one pool among its tiers: everybody's minimum first, then by priority, then where a device saves most.

Traffic that a tier cannot take may fall back to another; what a tier is not granted becomes the other's demand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush


@dataclass(frozen=True, slots=True)
class Claim:
    """What one tier asks of the pool."""

    tier: str
    minimum: int
    maximum: int
    current: int
    """Replicas that it has devices for now."""
    wanted: int
    """Replicas that its plan calls for."""
    devices: int
    """Devices of one replica, at least 1."""
    priority: int = 0
    price: float = 1.0
    """What a unit of the tier's traffic is worth, relative to the others."""
    fallback: str | None = None
    """Tier that takes the traffic which this one cannot."""
    fallback_ratio: float = 1.0
    """Replicas of the fallback that one replica's traffic needs there."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What one tier gets."""

    tier: str
    replicas: int
    short: int
    """Replicas that the plan called for and the pool does not hold."""
    taken_on: float
    """Replicas' worth of traffic that falls back onto this tier."""


def divide(claims: Sequence[Claim], devices: int) -> tuple[Grant, ...]:
    """Grant replicas within the pool's devices, in the order of the claims.

    Minimums are granted first, higher priority first where they do not all fit, so no burst takes another tier's minimum.
    The rest goes by priority. Among equals a replica that runs and is wanted is kept before another is added, and each further
    one goes to the tier that is shortest for its price: with the smallest granted share of what it wants, per price.
    Raises ValueError for two claims of one tier or a claim without devices.
    """
    if len({claim.tier for claim in claims}) < len(claims) or any(claim.devices < 1 for claim in claims):
        raise ValueError("each tier claims once, with at least one device per replica")
    taken_on = dict.fromkeys((claim.tier for claim in claims), 0.0)
    granted = _granted(claims, devices, taken_on)
    for _ in claims:  # a chain of fallbacks is no longer than that, and a ring ends there
        handed_down = _handed_down(claims, granted)
        if handed_down == taken_on:
            break
        taken_on = handed_down
        granted = _granted(claims, devices, taken_on)
    return tuple(
        Grant(
            claim.tier,
            granted[claim.tier],
            max(0, _wanted(claim, taken_on) - granted[claim.tier]),
            taken_on[claim.tier],
        )
        for claim in claims
    )


def _wanted(claim: Claim, taken_on: dict[str, float]) -> int:
    more = int(taken_on[claim.tier] + 1 - 1e-9)
    return min(claim.maximum, max(claim.minimum, claim.wanted + more))


def _handed_down(claims: Sequence[Claim], granted: dict[str, int]) -> dict[str, float]:
    """Traffic that falls back onto each tier, in its replicas; only what the tier's own plan called for is handed down."""
    handed = dict.fromkeys(granted, 0.0)
    for claim in claims:
        missing = min(claim.maximum, claim.wanted) - granted[claim.tier]
        if claim.fallback in handed and missing > 0:
            handed[claim.fallback] += missing * claim.fallback_ratio
    return handed


def _granted(claims: Sequence[Claim], devices: int, taken_on: dict[str, float]) -> dict[str, int]:
    granted = dict.fromkeys((claim.tier for claim in claims), 0)
    left = devices
    by_priority = sorted(claims, key=lambda claim: -claim.priority)
    for claim in by_priority:
        granted[claim.tier] = min(claim.minimum, left // claim.devices)
        left -= granted[claim.tier] * claim.devices
    for priority in sorted({claim.priority for claim in claims}, reverse=True):
        equals = [claim for claim in claims if claim.priority == priority]
        for keep in (True, False):
            goals = {
                claim.tier: min(_wanted(claim, taken_on), claim.current) if keep else _wanted(claim, taken_on)
                for claim in equals
            }
            left = _filled(equals, goals, granted, left, taken_on)
    return granted


def _filled(
    equals: Sequence[Claim],
    goals: dict[str, int],
    granted: dict[str, int],
    left: int,
    taken_on: dict[str, float],
) -> int:
    """Add replicas one by one up to the goals, to the shortest first; what is left of the devices."""

    def shortness(claim: Claim) -> float:
        return granted[claim.tier] / (_wanted(claim, taken_on) * max(claim.price, 1e-9))

    waiting = [
        (shortness(claim), place)
        for place, claim in enumerate(equals)
        if granted[claim.tier] < goals[claim.tier]
    ]
    heapify(waiting)
    while waiting:
        _, place = heappop(waiting)
        claim = equals[place]
        if claim.devices > left:
            continue
        granted[claim.tier] += 1
        left -= claim.devices
        if granted[claim.tier] < goals[claim.tier]:
            heappush(waiting, (shortness(claim), place))
    return left
