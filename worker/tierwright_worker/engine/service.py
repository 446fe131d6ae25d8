"""What the HTTP server asks of an engine: requests in, tokens out. `loop.py` implements it; tests do as well.

Times are seconds on the engine's monotonic clock. A listener is called from whatever thread the engine runs in, in order,
and must return at once; it is never called again after the Progress that has a `finish`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tierwright_worker.engine.interface import (
    Admission,
    Constraint,
    FinishReason,
    RequestId,
    SamplingParams,
    TokenLogprobs,
)
from tierwright_worker.engine.policies.breakpoints import Breakpoint, CacheUsage

ENGINE_DEAD = "engine_dead"
"""Why a request is not admitted where no limit of the queue is the cause."""


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One sequence to generate. A request for n answers is n of these with one prompt.

    `tenant` salts the prompt cache and takes its fair share of the queue. `breakpoints`: None caches all full pages of the
    prompt for the settings' ttl; a tuple, even an empty one, caches just what it names.
    """

    id: RequestId
    prompt: tuple[int, ...]
    params: SamplingParams
    tenant: str = ""
    priority: int = 0
    breakpoints: tuple[Breakpoint, ...] | None = None
    constraint: Constraint | None = None  # what the answer is kept to; of this sequence alone


@dataclass(frozen=True, slots=True)
class Beginning:
    """When one sequence arrived and got its slot, and what the prompt cache had of its prompt; with its first tokens."""

    arrived: float
    scheduled: float
    cache: CacheUsage


@dataclass(frozen=True, slots=True)
class Progress:
    """New tokens of one sequence, those of one step together; at least one, except with the finishes ERROR and ABORT.

    `tokens` include the end or stop token that ended it (`ended_by`), whose text is not shown. `logprobs`: one per token
    where asked for, else empty. `begun`: with the first tokens. `finish`: with the last. `at`: when the step ended.
    """

    id: RequestId
    tokens: tuple[int, ...]
    at: float
    logprobs: tuple[TokenLogprobs, ...] = ()
    begun: Beginning | None = None
    finish: FinishReason | None = None
    ended_by: int | None = None
    bent: int = 0  # of the tokens, those that a lossy rule alone let pass


@dataclass(frozen=True, slots=True)
class IterationRecord:
    """What one iteration of the device did, for metrics. `accepted`: drafts that were kept, one entry per drafting slot."""

    prefill_tokens: int
    generated_tokens: int
    drafted: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    bent: int = 0  # of those accepted, by a lossy rule alone
    cache_queries: int = 0  # prompt tokens looked up
    cache_hits: Mapping[str, int] = field(default_factory=dict)  # prompt tokens found, by PageTier
    cache_evictions: Mapping[str, int] = field(default_factory=dict)  # pages, by reason


@dataclass(frozen=True, slots=True)
class EngineState:
    """What is true of an engine now. `speculation`: why the last step drafted as it did (DraftLength.reason).

    `drafting`: requests that decode, by the tokens that each may draft. `cache_pages`: pages of the prompt cache in use, by
    level. `failure`: None while it lives, else one line that says why it died.
    """

    running: int
    waiting: int
    cache_usage: float  # share of slot positions in use, 0 to 1
    speculation: str = "off"
    acceptance: float | None = None  # share of drafted tokens kept of late
    failure: str | None = None
    drafting: Mapping[int, int] = field(default_factory=dict)
    cache_pages: Mapping[str, int] = field(default_factory=dict)
    bent_tokens: int = 0  # so far, by a lossy rule alone


@dataclass(frozen=True, slots=True)
class SpeculationFacts:
    """How an engine speculates. `most_tokens`: drafted in a step at most. `lossy`: the rule that bends, None = exact."""

    method: str = "off"  # off | ngram | draft
    most_tokens: int = 0
    disabled_above_batch: int | None = None
    lossy: str | None = None


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What does not change while an engine lives. `details`: further facts for metrics (dtypes, buckets, pages).

    `row_exact`: whether the warm-up found the same bits in every step shape; `agreement`: the share of plain greedy tokens
    that wider steps give as well, and so how far speculation keeps to plain decoding; None where nothing was compared.
    `cache_pages`: room for pages, by level.
    """

    max_length: int
    slots: int
    end_tokens: frozenset[int]
    details: Mapping[str, str] = field(default_factory=dict)
    speculation: SpeculationFacts = SpeculationFacts()
    row_exact: bool | None = None
    agreement: float | None = None
    cache_pages: Mapping[str, int] = field(default_factory=dict)
    most_held: int | None = None  # sequences in slots and queue together; None = any number
    most_waiting_tokens: int | None = None  # of prompts in the queue together, where more than one waits


class Engine(Protocol):
    """One engine, warmed and running. All methods may be called from any thread and return at once."""

    @property
    def facts(self) -> EngineFacts:
        """What does not change."""
        ...

    def state(self) -> EngineState:
        """What is true now."""
        ...

    def submit(self, requests: Sequence[EngineRequest], listener: Callable[[Progress], None]) -> Admission:
        """Queue all of them or none. Prompts are not empty and fit, with their max_tokens, into `facts.max_length`.

        The reason of a refusal is a limit of the queue by its name in vLLM's metric, or ENGINE_DEAD.
        """
        ...

    def cancel(self, ids: Sequence[RequestId]) -> None:
        """Forget sequences before the next step begins; their listener is not called again. Unknown ids are no error."""
        ...

    def observe(self, observer: Callable[[IterationRecord], None]) -> None:
        """Call `observer` after each iteration, as a listener is called."""
        ...
