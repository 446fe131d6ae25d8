"""The order of a run: each prompt plain and fast in turn, then all of them on a loaded standard engine; several passes.

Engines are started anew for each pass, so that within one nothing was ever seen before, and one at a time holds work.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tierwright_worker.bench.asking import Answer, Asker, BenchError, Request, Start
from tierwright_worker.bench.figures import GearRuns

Say = Callable[[str], None]
"""Shows progress."""
Keep = Callable[[GearRuns], None]
"""Takes what all passes so far gave, so that an interruption costs no more than the pass in which it comes."""


@dataclass(frozen=True, slots=True)
class Gears:
    """Three ways to serve one model. `plain` is the best that the worker can do without speculation for one request."""

    fast: Start
    plain: Start
    standard: Start
    standard_slots: int


def run_gears(
    gears: Gears,
    requests: Sequence[Request],
    load: Sequence[Request],
    *,
    passes: int,
    say: Say,
    keep: Keep = lambda _: None,
) -> GearRuns:
    """Every request on each gear, `passes` times; `keep` is called after each pass.

    Raises:
        BenchError: an engine failed, or the requests are fewer than what they are to fill.
    """
    if passes < 1 or not requests:
        raise BenchError("there is nothing to run: give at least one pass and one prompt")
    fast: dict[str, list[Answer]] = {request.id: [] for request in requests}
    plain: dict[str, list[Answer]] = {request.id: [] for request in requests}
    loaded: dict[str, list[Answer]] = {request.id: [] for request in requests}
    for number in range(1, passes + 1):
        where = f"pass {number}/{passes}: "
        _alternate(gears, requests, fast, plain, partial(_said, say, where))
        _load(gears, requests, load, loaded, partial(_said, say, where))
        keep(GearRuns(fast, plain, loaded))
    return GearRuns(fast, plain, loaded)


def _said(say: Say, where: str, text: str) -> None:
    say(where + text)


def _alternate(
    gears: Gears,
    requests: Sequence[Request],
    fast: dict[str, list[Answer]],
    plain: dict[str, list[Answer]],
    say: Say,
) -> None:
    engines = {"fast": gears.fast(), "plain": gears.plain()}
    try:
        askers = {name: Asker(engine) for name, engine in engines.items()}
        for place, request in enumerate(requests):
            # Who goes first changes, so that neither always finds the machine as the other left it.
            order = ("fast", "plain") if place % 2 else ("plain", "fast")
            answers = {name: askers[name].ask(request) for name in order}
            fast[request.id].append(answers["fast"])
            plain[request.id].append(answers["plain"])
            say(f"{place + 1}/{len(requests)} {request.id}: {_words(answers['fast'], answers['plain'])}")
    finally:
        for engine in engines.values():
            engine.stop()


def _load(
    gears: Gears,
    requests: Sequence[Request],
    load: Sequence[Request],
    loaded: dict[str, list[Answer]],
    say: Say,
) -> None:
    engine = gears.standard()
    try:
        ended = Asker(engine).keep_full(_mixed(requests), slots=gears.standard_slots, load=load)
        for count, answer in enumerate(ended, 1):
            loaded[answer.id].append(answer)
            if count % gears.standard_slots == 0 or count == len(requests):
                say(f"{gears.standard_slots} slots full: {count}/{len(requests)}")
    finally:
        engine.stop()


def _mixed(requests: Sequence[Request]) -> list[Request]:
    """Another order, the same each time, in which kinds stand side by side as they would among many users."""
    stride = 7
    return [request for first in range(stride) for request in requests[first::stride]]


def _words(fast: Answer, plain: Answer) -> str:
    same = "same text" if fast.tokens == plain.tokens else "OTHER TEXT"
    rates = [
        f"{name} {answer.decoded / answer.decode_seconds:.0f} tok/s" if answer.decoded else f"{name} -"
        for name, answer in (("fast", fast), ("plain", plain))
    ]
    return f"{len(plain.tokens)} tokens, {', '.join(rates)}, {same}"
