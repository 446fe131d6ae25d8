"""What the runner asks of the synchronous engine that it drives: `loop.Engine` fulfils it."""

from collections.abc import Mapping
from typing import Protocol

from tierwright_worker.engine.cached_prompts import CacheEvents
from tierwright_worker.engine.interface import Admission, RequestId
from tierwright_worker.engine.sequence import Output, Request


class IterationCounters(Protocol):
    """Totals that an engine keeps."""

    @property
    def prefill_tokens(self) -> int:
        """Prompt tokens computed."""
        ...


class SpeculationView(Protocol):
    """What an engine shows of its speculation."""

    @property
    def reasons(self) -> Mapping[str, int]:
        """Running requests by the reason of their draft length."""
        ...

    @property
    def lengths(self) -> Mapping[int, int]:
        """Running requests by their draft length."""
        ...


class Batch(Protocol):
    """The synchronous engine: `loop.Engine`. Only one thread calls it."""

    @property
    def counters(self) -> IterationCounters:
        """Totals since the start."""
        ...

    @property
    def speculation(self) -> SpeculationView:
        """How the last step was drafted."""
        ...

    @property
    def cache_levels(self) -> Mapping[str, int]:
        """Pages of the prompt cache in use, by level."""
        ...

    @property
    def busy(self) -> bool:
        """Whether an iteration would do anything."""
        ...

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        ...

    @property
    def cache_usage(self) -> float:
        """Share of the slots' positions in use."""
        ...

    def holds_slot(self, request_id: RequestId) -> bool:
        """Whether a request has left the queue and not yet ended."""
        ...

    def submit(self, request: Request) -> Admission:
        """Queue a request."""
        ...

    def cancel(self, request_id: RequestId) -> bool:
        """Forget a request."""
        ...

    def cache_events(self) -> CacheEvents:
        """What happened in the prompt cache since the last call."""
        ...

    def iterate(self, now: float) -> list[Output]:
        """Run one iteration that begins at `now`."""
        ...
