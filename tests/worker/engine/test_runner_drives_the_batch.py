"""The engine's thread: calls never wait for a step, the cancelled hear nothing more, a failure reaches everyone."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from tierwright_worker.engine.cached_prompts import CacheEvents
from tierwright_worker.engine.interface import Admission, FinishReason, QueueLimits, SamplingParams
from tierwright_worker.engine.runner import EngineRunner
from tierwright_worker.engine.sequence import Output, Request
from tierwright_worker.engine.service import EngineFacts, EngineRequest, IterationRecord, Progress

SLOTS = 2


@dataclass
class Totals:
    """What a batch counts."""

    prefill_tokens: int = 0


@dataclass
class Drafting:
    """How a batch drafts."""

    reasons: Mapping[str, int]
    lengths: Mapping[int, int]


@dataclass
class StepByStep:
    """A batch whose iterations wait for the test: each `go.release()` lets one run."""

    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    counters: Totals = field(default_factory=Totals)
    speculation: Drafting = field(default_factory=lambda: Drafting({"plain": 1, "pays": 1}, {0: 1, 4: 1}))
    cache_levels: Mapping[str, int] = field(default_factory=lambda: {"device": 3})
    queue: list[Request] = field(default_factory=list)
    slots: dict[str, Request] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)
    fails: BaseException | None = None
    refuses: str | None = None
    begun: int = 0
    cache_usage: float = 0.25

    @property
    def busy(self) -> bool:
        return bool(self.queue or self.slots)

    @property
    def waiting(self) -> int:
        return len(self.queue)

    @property
    def running(self) -> int:
        return len(self.slots)

    def holds_slot(self, request_id: str) -> bool:
        return request_id in self.slots

    def submit(self, request: Request) -> Admission:
        if request.id == self.refuses:
            return Admission(False, "max_num_queued_reqs", 1)
        self.queue.append(request)
        return Admission(True, "admitted")

    def cancel(self, request_id: str) -> bool:
        self.queue = [request for request in self.queue if request.id != request_id]
        return self.slots.pop(request_id, None) is not None

    def cache_events(self) -> CacheEvents:
        return CacheEvents(7, {"device": 4}, {"ttl": 1})

    def iterate(self, now: float) -> list[Output]:  # noqa: ARG002  # nothing here is cached
        self.begun += 1
        self.go.acquire()
        if self.fails:
            raise self.fails
        while self.queue and len(self.slots) < SLOTS:
            request = self.queue.pop(0)
            self.slots[request.id] = request
            self.counters.prefill_tokens += len(request.prompt)
        return [self._gain(request) for request in list(self.slots.values())]

    def _gain(self, request: Request) -> Output:
        self.made[request.id] = made = self.made.get(request.id, 0) + 1
        last = made >= request.params.max_tokens
        if last:
            del self.slots[request.id]
        reason = FinishReason.STOP if last else None
        ended_by = made if last else None
        return Output(request.id, (made,), finished=reason, ended_by=ended_by, drafted=4, accepted=1)


def asked(name: str, tokens: int = 3, prompt: int = 5) -> EngineRequest:
    """A request."""
    return EngineRequest(name, tuple(range(prompt)), SamplingParams(max_tokens=tokens))


def until(holds: Callable[[], object]) -> None:
    """Wait for a condition."""
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, "it did not come to hold in time"
        time.sleep(0.002)


@dataclass
class Stage:
    """A runner around a batch, and what it told."""

    batch: StepByStep
    runner: EngineRunner
    told: list[Progress] = field(default_factory=list)
    records: list[IterationRecord] = field(default_factory=list)

    def submit(self, *requests: EngineRequest) -> Admission:
        """Submit, listening."""
        return self.runner.submit(requests, self.told.append)

    def step(self) -> None:
        """Let one iteration run, from its beginning to the end of its telling."""
        done = len(self.records)
        self.batch.go.release()
        until(lambda: len(self.records) > done)


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A started runner with room for two waiting requests."""
    batch = StepByStep()
    made = Stage(batch, EngineRunner(batch, EngineFacts(100, SLOTS, frozenset()), QueueLimits(2)))
    made.runner.observe(made.records.append)
    made.runner.start()
    yield made
    batch.go.release(1000)
    made.runner.stop()


def test_an_answer_is_told_from_beginning_to_end(stage: Stage) -> None:
    assert stage.submit(asked("a")).admitted
    for _ in range(3):
        stage.step()
    until(lambda: len(stage.told) == 3)
    first, middle, last = stage.told
    assert first.begun is not None
    assert first.begun.arrived <= first.begun.scheduled <= first.at
    assert first.begun.cache.uncached == 5
    assert (middle.begun, middle.finish) == (None, None)
    assert (last.finish, last.ended_by, last.tokens) == (FinishReason.STOP, 3, (3,))
    assert first.at <= middle.at <= last.at
    assert stage.runner.state().running == 0
    assert stage.records[0] == IterationRecord(5, 1, (4,), (1,), 0, 7, {"device": 4}, {"ttl": 1})


def test_no_call_waits_for_a_step(stage: Stage) -> None:
    stage.submit(asked("a"))
    until(lambda: stage.batch.begun == 1)
    before = time.monotonic()
    stage.submit(asked("b"))
    stage.runner.cancel(["a"])
    stage.runner.state()
    assert time.monotonic() - before < 5
    assert stage.batch.begun == 1


def test_the_cancelled_hear_nothing_more_even_of_the_step_that_runs(stage: Stage) -> None:
    stage.submit(asked("a"), asked("b"))
    stage.step()
    until(lambda: stage.batch.begun == 2)
    stage.runner.cancel(["a", "unknown"])
    stage.step()
    stage.step()
    assert [progress.id for progress in stage.told if progress.id == "a"] == ["a"]
    assert "a" not in stage.batch.slots
    assert [progress.id for progress in stage.told if progress.finish] == ["b"]


def test_a_request_cancelled_before_it_was_handed_over_never_reaches_the_batch(stage: Stage) -> None:
    stage.submit(asked("a", tokens=1))
    until(lambda: stage.batch.begun == 1)
    stage.submit(asked("b"))
    stage.runner.cancel(["b"])
    stage.step()
    until(lambda: stage.told)
    assert "b" not in stage.batch.made
    assert not stage.batch.busy


def test_the_queue_is_bounded_and_takes_all_or_none(stage: Stage) -> None:
    assert stage.submit(asked("a"), asked("b")).admitted
    stage.step()
    assert not stage.submit(asked("c"), asked("d"), asked("e")).admitted
    assert stage.runner.state().waiting == 0
    assert stage.submit(asked("c"), asked("d")).admitted
    refused = stage.submit(asked("e"))
    assert (refused.admitted, refused.reason) == (False, "max_num_queued_reqs")
    assert refused.retry_after is not None
    stage.runner.cancel(["c"])
    assert stage.submit(asked("e")).admitted


def test_requests_that_find_a_slot_free_do_not_count_as_waiting(stage: Stage) -> None:
    assert stage.submit(*[asked(name) for name in "abcd"]).admitted
    assert not stage.submit(asked("e")).admitted


def test_the_state_says_what_is_held_and_how_speculation_is(stage: Stage) -> None:
    stage.submit(asked("a"), asked("b"), asked("c"))
    stage.step()
    state = stage.runner.state()
    assert (state.running, state.waiting, state.cache_usage) == (2, 1, 0.25)
    assert (state.speculation, state.acceptance, state.failure) == ("pays", 0.25, None)
    assert (state.drafting, state.cache_pages) == ({0: 1, 4: 1}, {"device": 3})


def test_no_draft_length_is_shown_once_nobody_decodes(stage: Stage) -> None:
    stage.submit(asked("a", tokens=1))
    stage.step()
    assert stage.runner.state().drafting == {}


@dataclass
class OfOneThread(StepByStep):
    """A batch that only one thread may look at, as the real one, whose collections change while it iterates."""

    asked_by: set[int] = field(default_factory=set)

    @property
    def running(self) -> int:
        self.asked_by.add(threading.get_ident())
        return len(self.slots)


def test_only_the_engines_thread_looks_at_the_batch() -> None:
    batch = OfOneThread()
    made = Stage(batch, EngineRunner(batch, EngineFacts(100, SLOTS, frozenset()), QueueLimits(2)))
    made.runner.observe(made.records.append)
    made.runner.start()
    made.submit(asked("a"))
    made.step()
    assert made.runner.state().cache_usage == 0.25
    batch.go.release(1000)
    made.runner.stop()
    assert batch.asked_by
    assert threading.get_ident() not in batch.asked_by


class PanicError(BaseException):
    """As extensions in Rust raise it: no Exception."""


@pytest.mark.parametrize("kind", [RuntimeError, PanicError])
def test_a_failed_iteration_ends_everything_with_its_reason(stage: Stage, kind: type[BaseException]) -> None:
    stage.submit(asked("a"), asked("b"), asked("c"))
    stage.batch.fails = kind("the device is gone\nand more")
    stage.batch.go.release()
    until(lambda: len(stage.told) == 3)
    assert {progress.finish for progress in stage.told} == {FinishReason.ERROR}
    assert stage.runner.state().failure == f"{kind.__name__}: the device is gone"
    assert isinstance(stage.runner.error, kind)
    assert not stage.submit(asked("d")).admitted


def test_a_request_that_the_batch_does_not_take_ends_alone(stage: Stage) -> None:
    stage.batch.refuses = "b"
    stage.submit(asked("a", tokens=1), asked("b"))
    until(lambda: stage.told)
    stage.step()
    until(lambda: len(stage.told) == 2)
    assert [(progress.id, progress.finish) for progress in stage.told] == [
        ("b", FinishReason.ERROR),
        ("a", FinishReason.STOP),
    ]
    assert stage.runner.state().failure is None
