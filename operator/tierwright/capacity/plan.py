"""The plan of one tick: what is foretold from what was learned, and how many replicas it calls for."""

from dataclasses import dataclass

from tierwright.capacity.forecast import SLOT
from tierwright.capacity.learn import work_of
from tierwright.capacity.miss_curve import learned
from tierwright.capacity.need import Outlook, backlog_load, cheapest, unavoidable
from tierwright.capacity.settings import TierSettings
from tierwright.capacity.state import TierState

_KNOWN = 60
"""Slots until the forecast's own errors tell how bursty the demand is; the measured dispersion stands in for them, fading."""
_DEVIATIONS = 4.0
"""Standard deviations of a slot's arrivals for which there is headroom until then: a burst is over before a start is."""
_MARGIN = 0.7
"""Share of a replica's cost that must be saved before one goes: what is enough by a hair is not enough for long."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is called for, and from what. Loads are in replicas at their work limit."""

    rate: float
    """Requests per second over the last minute."""
    backlog: float
    """Requests that wait."""
    demand: float
    """Work that arrives."""
    expected: float
    """Work that is foretold for the horizon, backlog included."""
    horizon: float
    """Seconds until a replica asked for now is ready."""
    allowed: float
    """Share of requests that may miss over a day, those included that no replica prevents."""
    price: float
    """What a miss is worth: replicas that may be kept to prevent the misses of one replica's full work."""
    missing: float
    """Share of requests that are expected to miss with `replicas`."""
    floor: float
    """Share of requests that miss however many replicas there are."""
    holds: float
    """Load per replica up to which the allowance holds."""
    dispersion: float
    """Variance over mean of the arrivals per minute."""
    replicas: int
    lasting: int
    """Most that is called for from the horizon to the end of the hold after it."""


def planned(
    state: TierState, settings: TierSettings, ready: int, wanted: int, now: float, horizon: float, hold: float
) -> Plan:
    """Plan for the moment at which a replica that is asked for now is ready, and beyond it where fewer would do."""
    seconds = sum(row.seconds for row in state.rows)
    rate = sum(row.arrivals for row in state.rows) / seconds
    work, backlog = work_of(state, settings), state.rows[-1].backlog
    demand = rate * work
    curve = learned(state.evidence, settings.accelerator)
    allowed = 1 - settings.attainment
    price = state.misses.price(allowed)
    allowed += unavoidable(curve, allowed)
    more = backlog_load(backlog, work, demand, ready, horizon)
    unknown = max(0.0, 1 - state.forecast.slots / _KNOWN)
    more += unknown * state.dispersion.headroom(rate, work, SLOT, _DEVIATIONS)

    forecast = state.forecast.glimpsed(demand)

    def outlook_at(after: float, extra: float) -> Outlook:
        return forecast.outlook(forecast.expected(now, now + after), extra)

    outlook = outlook_at(horizon, more)
    replicas = lasting = cheapest(outlook, curve, price, settings.maximum)
    if replicas < wanted:
        later = (outlook, outlook_at(horizon + hold / 2, 0.0), outlook_at(horizon + hold, 0.0))
        lasting = max(cheapest(each, curve, price / _MARGIN, settings.maximum) for each in later)
    return Plan(
        rate=rate,
        backlog=backlog,
        demand=demand,
        expected=outlook.mean,
        horizon=horizon,
        allowed=allowed,
        price=price,
        missing=outlook.misses(max(1, replicas), curve),
        floor=curve.floor,
        holds=curve.holds(allowed, max(1, ready)),
        dispersion=state.dispersion.index,
        replicas=replicas,
        lasting=lasting,
    )
