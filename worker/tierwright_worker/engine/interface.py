"""What the engine's loop and its policies tell each other: values, and what one request brings along.

Pure: no clock, no randomness but what is given, no JAX. Tokens are plain ints. Positions count from 0 in the sequence
of prompt and output. A slot is one row of the device cache; an iteration is at most one prefill and one step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

RequestId = str
Slot = int
Logits = npt.NDArray[np.float32]  # [rows, vocabulary]


# --- requests -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How a request's tokens are chosen. `temperature` 0 means greedy; `top_k` 0 and `top_p` 1 mean no cut."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int = 0  # the server draws one when the client gives none
    max_tokens: int = 16
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    logprobs: int | None = None  # alternatives per token; 0 = the chosen token's alone
    min_tokens: int = 0  # no end or stop token before
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)

    @property
    def changes_logits(self) -> bool:
        """Whether a penalty, a bias or a minimum length applies, so that the model's own argmax is not the answer."""
        penalties = (self.presence_penalty, self.frequency_penalty, self.repetition_penalty - 1)
        return any(penalties) or bool(self.logit_bias) or self.min_tokens > 0

    @property
    def greedy(self) -> bool:
        """Whether the model's most probable token is always taken; else the logits decide, also at temperature 0."""
        return self.temperature == 0.0 and not self.changes_logits


class FinishReason(StrEnum):
    """Why a request ended; the values of vLLM's `finished_reason` label."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


# --- scheduling ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shapes:
    """The executables that exist. Every tuple is sorted, ascending, without repeats."""

    slots: int
    step_rows: tuple[int, ...]  # rows per slot of a step: 1 = plain decoding, r = r - 1 drafted tokens
    length_buckets: tuple[int, ...]  # cache positions attended to; the last one is the longest context
    prefill_buckets: tuple[int, ...]  # rows of one prefill chunk

    @property
    def max_length(self) -> int:
        """The longest context, prompt and output together, in tokens."""
        return self.length_buckets[-1]


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """When a request is refused rather than queued. None = no limit."""

    max_requests: int
    max_tokens: int | None = None  # prompt tokens that wait, all requests together


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a request may enter the queue. `retry_after` in whole seconds when it may not."""

    admitted: bool
    reason: str
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """A request in the queue, oldest first in the sequences that hold it."""

    id: RequestId
    prompt_tokens: int
    max_tokens: int
    priority: int = 0  # lower runs first; equal ones by share, then by arrival
    share: float = 0.0  # start tag that `policies.fairness.FairShares` gave on arrival; lower first


@dataclass(frozen=True, slots=True)
class RunningRequest:
    """A request that holds a slot. `computed` positions are in the device cache; it decodes once computed >= prompt - 1."""

    id: RequestId
    slot: Slot
    prompt_tokens: int
    output_tokens: int
    computed: int
    max_tokens: int
    wants_draft: int  # tokens that its drafter could propose now, after the draft-length policy
    passed_over: int = 0  # iterations in a row in which it had a chunk to prefill and another's ran

    @property
    def prefilling(self) -> bool:
        """Whether prompt positions are left that only prefill computes (all but the last one of the prompt)."""
        return self.computed < self.prompt_tokens - 1

    @property
    def length(self) -> int:
        """Known tokens: prompt and output."""
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """Positions `start` to `start + tokens` of one slot, run by the executable (bucket, length_bucket)."""

    slot: Slot
    start: int
    tokens: int
    bucket: int
    length_bucket: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step over all slots. `drafts` gives the drafted tokens that each decoding slot may verify (0 = plain)."""

    rows: int
    length_bucket: int
    drafts: Mapping[Slot, int]  # keys: the slots that take part


@dataclass(frozen=True, slots=True)
class Iteration:
    """What the device does next. Neither prefill nor step: nothing to do until a request arrives."""

    admissions: tuple[tuple[RequestId, Slot], ...]
    prefill: PrefillChunk | None
    step: Step | None
    reason: str


# --- speculation --------------------------------------------------------------------------------------------------


class Drafter(Protocol):
    """Proposes what may come next in one sequence. Mutable, one per request; `policies.ngram.NgramDrafter`."""

    def extend(self, tokens: Sequence[int]) -> None:
        """Take note of tokens that now belong to the sequence for good. Cost: O(tokens), independent of the length."""
        ...

    def propose(self, limit: int) -> tuple[int, ...]:
        """At most `limit` tokens that may follow; empty when nothing matches. Changes nothing."""
        ...


@dataclass(frozen=True, slots=True)
class SpeculationLimits:
    """What the tier's settings allow."""

    max_tokens: int  # drafted per step; 0 = off
    disable_above_batch: int | None = None  # decoding slots above which nothing is drafted


@dataclass(frozen=True, slots=True)
class AcceptanceState:
    """What is known about one request's drafts, as exponentially weighted sums of tries and successes.

    The first token of a draft and those after an accepted one are told apart: in copies the first is the doubtful one.
    """

    first_tried: float = 0.0
    first_accepted: float = 0.0
    further_tried: float = 0.0
    further_accepted: float = 0.0
    steps_since_probe: int = 0  # steps in which nothing was learned although something was proposed


@dataclass(frozen=True, slots=True)
class DraftLength:
    """How many tokens to draft, and why (a word for metrics and /load)."""

    tokens: int
    reason: str


# --- acceptance and sampling ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What one slot gains from one step: `tokens` are the accepted draft prefix and one more token of the model's own."""

    accepted: int
    tokens: tuple[int, ...]  # len == accepted + 1
    bent: int = 0  # accepted by a lossy rule alone; 0 unless layered verification is on


@dataclass(frozen=True, slots=True)
class SamplingContext:
    """What penalties and the minimum length look at; empty where `SamplingParams.changes_logits` is false."""

    prompt: frozenset[int] = frozenset()  # distinct tokens of the prompt
    output: Mapping[int, int] = field(default_factory=dict)  # token -> times generated so far
    end_tokens: frozenset[int] = frozenset()  # not taken before min_tokens


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural logarithms of the model's own distribution (before temperature and cuts), as OpenAI and vLLM report them."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()  # (token, logprob), best first, ties by lower id


# --- constraints ----------------------------------------------------------------------------------------------------

Mask = npt.NDArray[np.bool_]  # [vocabulary of the tokenizer]; what lies beyond may not come


class ConstraintError(Exception):
    """An answer cannot be kept to its constraint; it alone ends."""


class Constraint(Protocol):
    """What tokens may come in one answer. Mutable, one per sequence; `grammar.Grammar`."""

    def allowed(self, draft: Sequence[int]) -> Sequence[Mask]:
        """A mask for each row of a step, up to the first drafted token that may not come. ConstraintError. Changes nothing."""
        ...

    def take(self, tokens: Sequence[int]) -> bool:
        """Go on behind tokens that now belong to the answer; whether it is complete, so that none may follow. ConstraintError."""
        ...


# --- prompt cache ---------------------------------------------------------------------------------------------------


class PageTier(StrEnum):
    """Where a cached page lies; the values of vLLM's `source` label."""

    DEVICE = "device"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """Sizes in pages of `page_tokens` tokens; `ttl` in seconds, refreshed by each hit."""

    page_tokens: int
    device_pages: int
    host_pages: int
    ttl: float


@dataclass(frozen=True, slots=True)
class PageRef:
    """One page of cached keys and values: its place in the pool of its tier."""

    tier: PageTier
    index: int


@dataclass(frozen=True, slots=True)
class CacheMatch:
    """The longest cached prefix: pages in order, the tokens they hold."""

    pages: tuple[PageRef, ...] = ()
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class CacheMove:
    """One copy that the executor must make, in the order given. `source` None = from the slot at `page` (its ordinal)."""

    key: bytes
    page: int
    source: PageRef | None
    target: PageRef


@dataclass(frozen=True, slots=True)
class CacheChange:
    """What an insert does: copies to make, and pages forgotten by reason (ttl | pressure)."""

    moves: tuple[CacheMove, ...] = ()
    evicted: Mapping[str, int] = field(default_factory=dict)
