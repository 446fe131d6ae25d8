"""One request while the engine holds it: its tokens, where it stands, and what its drafter has learned."""

from collections import Counter
from dataclasses import dataclass, field

from tierwright_worker.engine.interface import (
    AcceptanceState,
    Constraint,
    Drafter,
    FinishReason,
    RequestId,
    RunningRequest,
    SamplingContext,
    SamplingParams,
    Slot,
    TokenLogprobs,
    WaitingRequest,
)
from tierwright_worker.engine.policies.breakpoints import Breakpoint, CacheUsage


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks of the engine: a prompt's tokens and how to go on. `id` is unique among those held."""

    id: RequestId
    prompt: tuple[int, ...]
    params: SamplingParams
    priority: int = 0
    tenant: str = ""
    breakpoints: tuple[Breakpoint, ...] | None = None  # None: all of the prompt is worth caching
    constraint: Constraint | None = None  # moved along with the answer: good for one run


@dataclass(frozen=True, slots=True)
class Output:
    """What one iteration gives to one request; `finished` is set with its last tokens."""

    id: RequestId
    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] = ()
    finished: FinishReason | None = None
    ended_by: int | None = None  # the end or stop token, the last of the tokens
    drafted: int = 0
    accepted: int = 0
    bent: int = 0  # accepted by a lossy rule alone
    cache: CacheUsage | None = None  # with the first tokens


@dataclass(slots=True)
class Sequence:
    """A request's state. While it decodes, every known token but the last one is in the device cache."""

    request: Request
    share: float
    drafter: Drafter | None
    keys: tuple[bytes, ...] = ()  # of the prompt's pages, where prompts are cached
    read: int = 0  # prompt tokens that the cache supplied
    slot: Slot | None = None
    output: list[int] = field(default_factory=list)
    computed: int = 0
    passed_over: int = 0
    acceptance: AcceptanceState = field(default_factory=AcceptanceState)
    proposal: tuple[int, ...] = ()  # what the drafter proposes now, as far as it may be looked at
    draft_limit: int = 0  # of the proposal, how much may be verified
    counts: Counter[int] = field(default_factory=Counter)  # of the output's tokens, kept for penalties alone

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return len(self.request.prompt)

    @property
    def prefilling(self) -> bool:
        """Whether it holds a slot and prompt positions are left for prefill."""
        return self.slot is not None and self.computed < self.prompt_tokens - 1

    def known(self, start: int, stop: int) -> list[int]:
        """Tokens of prompt and output at these positions."""
        prompt, output = self.request.prompt, self.output
        if stop <= len(prompt):
            return list(prompt[start:stop])
        return [prompt[at] if at < len(prompt) else output[at - len(prompt)] for at in range(start, stop)]

    def take(self, tokens: tuple[int, ...]) -> None:
        """Append tokens that now belong to the output."""
        self.output.extend(tokens)
        if self.request.params.changes_logits:
            self.counts.update(tokens)
        if self.drafter is not None:
            self.drafter.extend(tokens)

    def sampling_context(self, end_tokens: frozenset[int]) -> SamplingContext:
        """What penalties look at; empty where none applies."""
        if not self.request.params.changes_logits:
            return SamplingContext()
        return SamplingContext(frozenset(self.request.prompt), dict(self.counts), end_tokens)

    def waiting(self) -> WaitingRequest:
        """As the scheduler sees it before it has a slot."""
        params = self.request.params
        return WaitingRequest(
            self.request.id, self.prompt_tokens, params.max_tokens, self.request.priority, self.share
        )

    def running(self) -> RunningRequest:
        """As the scheduler sees it in its slot; `passed_over` counts iterations in which another's chunk ran."""
        if self.slot is None:
            raise ValueError(f"request {self.request.id} holds no slot")
        return RunningRequest(
            id=self.request.id,
            slot=self.slot,
            prompt_tokens=self.prompt_tokens,
            output_tokens=len(self.output),
            computed=self.computed,
            max_tokens=self.request.params.max_tokens,
            wants_draft=min(self.draft_limit, len(self.proposal)),
            passed_over=self.passed_over,
        )
