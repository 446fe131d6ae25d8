"""A tier, its engine and its requests as the tests of the planning package use them."""

from collections.abc import Iterable

from tierwright.capacity.settings import TierSettings
from tierwright.planning.case import Case, Figures, Setting
from tierwright.planning.demand import Demand
from tierwright.planning.engine import Hardware, Request

ENGINE = Hardware("8b-a100", 11.47e-3, 38.1e-6, 79.4e-9, 60.41e-6)
CASE = Case(
    name="serving/llama",
    speed="standard",
    engine=ENGINE,
    first_token=1.0,
    per_token=0.06,
    settings=TierSettings(1, 12, 0.95, "nvidia", cold_start=60.0),
    start=1,
)


def demand_of(requests: Iterable[Request], case: Case = CASE) -> Demand:
    """What the requests amount to."""
    demand = Demand()
    for request in requests:
        demand.add(request, case)
    return demand


def steady(rate: float, seconds: float, prompt: int = 1000, output: int = 100) -> list[Request]:
    """Requests at equal distances."""
    return [Request(place / rate, prompt, output) for place in range(int(rate * seconds))]


def figures(setting: Setting, attainment: float = 1.0, hours: float = 1.0) -> Figures:
    """Figures of a run that nobody made."""
    return Figures(setting, 100, attainment, 1.0, 1.0, hours, 1.0, 1, 0, 0, (), ())
