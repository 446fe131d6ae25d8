"""Slots stay full until the last measured answer, each pass begins with a fresh engine, failures end the run."""

import time
from collections.abc import Sequence

import pytest

from tests.worker.server.tiny_engine import TinyEngine
from tests.worker.server.tiny_model import tokens_of
from tierwright_worker.bench.asking import Asker, BenchError, Request
from tierwright_worker.bench.gears import Gears, run_gears
from tierwright_worker.engine.interface import QueueLimits
from tierwright_worker.engine.service import EngineRequest


class Stoppable(TinyEngine):
    """A tiny engine that counts how many requests it held at once, and what it was asked."""

    def __post_init__(self) -> None:
        self.asked: list[str] = []
        self.stopped = False
        super().__post_init__()

    def submit(self, requests: Sequence[EngineRequest], listener):  # type: ignore[no-untyped-def]  # as TinyEngine's
        self.asked += [request.id for request in requests]
        return super().submit(requests, listener)

    def stop(self) -> None:
        """End it."""
        self.stopped = True
        self.close()


def engine(**more: object) -> Stoppable:
    """An engine that says a prompt back."""
    return Stoppable(answer=lambda request: request.prompt, **more)  # type: ignore[arg-type]


def requests(count: int, kind: str = "r") -> list[Request]:
    """Requests of different lengths."""
    return [Request(f"{kind}{n}", tokens_of("x" * (3 + n % 5)), 64) for n in range(count)]


def test_an_answer_tells_when_its_tokens_came() -> None:
    tiny = engine(step_seconds=0.02)
    answer = Asker(tiny).ask(Request("one", tokens_of("abcdef"), 64))
    tiny.stop()
    assert answer.tokens[:-1] == tokens_of("abcdef")
    assert answer.first_tokens == 1
    assert answer.decoded == answer.steps - 1 == 6
    assert answer.arrived <= answer.first < answer.last
    assert answer.decode_seconds >= 5 * 0.02


def test_slots_stay_full_until_the_last_measured_answer() -> None:
    tiny = engine(slots=3, step_seconds=0.005)
    asked = requests(7)
    held = [
        (answer.id, tiny.state().running + tiny.state().waiting)
        for answer in Asker(tiny).keep_full(asked, slots=3, load=requests(2, "load"))
    ]
    tiny.stop()
    assert sorted(name for name, _ in held) == sorted(request.id for request in asked)
    # After the last one nothing is asked any more; before, whoever ended has a successor.
    assert all(count >= 2 for _, count in held[:-1])
    assert any(name.startswith("load") for name in tiny.asked)


def test_without_load_the_last_ones_run_alone() -> None:
    tiny = engine(slots=3)
    answers = list(Asker(tiny).keep_full(requests(4), slots=3))
    tiny.stop()
    assert len(answers) == 4


def test_each_pass_begins_with_a_fresh_engine_and_asks_everything_once() -> None:
    made: list[Stoppable] = []

    def start() -> Stoppable:
        made.append(engine(slots=2))
        return made[-1]

    asked = requests(5)
    said: list[str] = []
    kept: list[int] = []
    runs = run_gears(
        Gears(start, start, start, 2),
        asked,
        requests(2, "load"),
        passes=2,
        say=said.append,
        keep=lambda runs: kept.append(len(runs.loaded["r0"])),
    )
    assert kept == [1, 2]
    assert len(made) == 6
    assert all(tiny.stopped for tiny in made)
    for side in (runs.fast, runs.plain, runs.loaded):
        assert side.keys() == {request.id for request in asked}
        assert all(len(answers) == 2 for answers in side.values())
    for tiny in made:
        measured = [name for name in tiny.asked if name.startswith("r")]
        assert sorted(measured) == sorted(request.id for request in asked)
    assert any("pass 2/2" in line for line in said)


def test_an_engine_that_dies_or_refuses_ends_the_run() -> None:
    tiny = engine(step_seconds=0.05)
    asker = Asker(tiny)
    tiny.dies_with = "out of luck"
    with pytest.raises(BenchError, match="out of luck"):
        asker.ask(Request("one", tokens_of("abc"), 64))
    tiny.stop()
    full = engine(slots=1, step_seconds=0.05, limits=QueueLimits(1))
    with pytest.raises(BenchError, match="refused"):
        list(Asker(full).keep_full(requests(4), slots=4))
    full.stop()


def test_nothing_to_run_is_said_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(BenchError, match="nothing to run"):
        run_gears(Gears(engine, engine, engine, 2), [], [], passes=1, say=lambda _: None)
    assert time.monotonic() - began < 5
