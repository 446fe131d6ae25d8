"""Names the values that go into the scheduler and come out of it."""

from dataclasses import dataclass

from dev.engine_sim.kv_cache import BlockHash


@dataclass(frozen=True)
class Limits:
    """Bounds of a step and of the queue; None means no bound."""

    max_sequences: int
    max_batched_tokens: int
    chunked_prefill: bool = True
    long_prefill_threshold: int = 0
    max_queued_requests: int | None = None
    max_queued_tokens: int | None = None


@dataclass(frozen=True)
class Request:
    """One sequence to generate.

    `block_hashes` are the hash chain over the full blocks of prompt and answer; `draftable[i]` says whether a
    drafter would guess the answer's token i right.
    """

    request_id: str
    prompt_tokens: int
    output_tokens: int
    block_hashes: tuple[BlockHash, ...] = ()
    draftable: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Work:
    """What a step does for one sequence: `prefill` tokens of known text, or one decode with `drafts` guesses."""

    request_id: str
    prefill: int
    drafts: int = 0


@dataclass(frozen=True)
class StepPlan:
    """A step to run; `seconds` by the step-time model."""

    work: tuple[Work, ...]
    seconds: float
    preempted: tuple[str, ...] = ()


@dataclass(frozen=True)
class RequestRecord:
    """The times (seconds, the caller's clock) and counts of a finished request."""

    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    preemptions: int
    arrived: float
    scheduled: float
    first_token: float
    last_token: float


@dataclass(frozen=True)
class Progress:
    """New tokens of one sequence; `record` once it is finished."""

    request_id: str
    new_tokens: int
    at: float
    since_last: float | None
    since_arrival: float
    prompt_tokens: int
    cached_tokens: int
    record: RequestRecord | None = None


@dataclass(frozen=True)
class StepOutcome:
    """What a completed step produced; `accepted_runs` holds the accepted drafts of each decode that had some drafted."""

    progress: tuple[Progress, ...]
    prefill_tokens: int
    preemptions: int
    draft_tokens: int
    accepted_runs: tuple[int, ...]
    prefix_queries: int
    prefix_hits: int
