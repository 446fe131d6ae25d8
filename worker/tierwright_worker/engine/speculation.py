"""Asks the policies how much each request drafts, a drafter for the tokens, and learns from what the model kept of them."""

from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence as Several
from dataclasses import dataclass
from typing import Protocol

from tierwright_worker.engine.interface import (
    Acceptance,
    Drafter,
    RequestId,
    SpeculationLimits,
)
from tierwright_worker.engine.policies.draft_length import choose_draft_length, observe
from tierwright_worker.engine.policies.ngram import NgramDrafter
from tierwright_worker.engine.sequence import Request, Sequence


class BatchDrafter(Protocol):
    """Drafts for all slots at once, at a cost: `draft_model.DraftModel`."""

    def seconds(self, tokens: int) -> float:
        """What drafting so many tokens costs, by the times measured at warm-up."""
        ...

    def propose(
        self, wanted: Several[tuple[Sequence, int]], *, held: Several[Sequence], now: float
    ) -> Mapping[RequestId, tuple[int, ...]]:
        """At most so many tokens for each sequence; nothing for one that it has not read up to its end yet.

        `held`: every sequence that has a slot; what is known of others may be forgotten. `now`: as in `Engine.iterate`.
        """
        ...


@dataclass(slots=True)
class Counters:
    """Totals of an engine since its start. `bent_tokens`: those that a lossy rule alone let pass."""

    steps: int = 0
    prefill_tokens: int = 0
    generated_tokens: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    bent_tokens: int = 0


class Speculation:
    """What an engine drafts with: look-up in the request's own text, or a small model where one is given."""

    def __init__(
        self,
        limits: SpeculationLimits,
        step_seconds: Mapping[tuple[int, int], float],
        step_rows: tuple[int, ...],
        drafter: BatchDrafter | None = None,
    ) -> None:
        """`step_seconds`: (rows, length bucket) -> seconds; `step_rows`: the shapes that may be used."""
        self._limits, self._step_seconds, self._rows = limits, step_seconds, step_rows
        self._drafter = drafter
        self._on = limits.max_tokens > 0 and step_rows != (1,)
        self.counters = Counters()
        self.reasons: Mapping[str, int] = {}  # running requests by the reason of their draft length
        self.lengths: Mapping[int, int] = {}  # running requests by their draft length

    def begin(self, request: Request) -> Drafter | None:
        """The drafter that a request has for itself alone."""
        if not self._on or self._drafter is not None:
            return None
        drafter = NgramDrafter()
        drafter.extend(request.prompt)
        return drafter

    def choose(self, running: Several[Sequence], length: int, now: float) -> None:
        """Give every sequence that decodes its proposal; `length` is the cache's length bucket, `now` as in `Engine.iterate`."""
        if not self._on:
            return
        decoding = [sequence for sequence in running if not sequence.prefilling]
        costs = {rows: self._cost(rows, length) for rows in self._rows}
        reasons: Counter[str] = Counter()
        lengths: Counter[int] = Counter()
        for sequence in decoding:
            choice = choose_draft_length(
                sequence.acceptance, decoding=len(decoding), limits=self._limits, step_cost=costs
            )
            reasons[choice.reason] += 1
            lengths[choice.tokens] += 1
            sequence.draft_limit = choice.tokens
        self.reasons, self.lengths = dict(reasons), dict(lengths)
        self._propose(decoding, running, now)

    def learn(self, sequence: Sequence, draft: tuple[int, ...], gained: Acceptance) -> None:
        """Take note of what a step kept of a sequence's draft."""
        if not self._on:
            return
        proposal = sequence.proposal
        agreed = gained.tokens[0] == proposal[0] if proposal and not draft else None
        # A model drafts only what is verified, but it always could: a request that drafts nothing is probed in time.
        proposed = len(proposal) if self._drafter is None else max(1, len(proposal))
        sequence.acceptance = observe(
            sequence.acceptance,
            proposed=proposed,
            drafted=len(draft),
            accepted=gained.accepted,
            agreed=agreed,
        )
        if draft:
            self.counters.drafts += 1
            self.counters.draft_tokens += len(draft)
            self.counters.accepted_tokens += gained.accepted
            self.counters.bent_tokens += gained.bent

    def _propose(self, decoding: Several[Sequence], held: Several[Sequence], now: float) -> None:
        if self._drafter is None:
            for sequence in decoding:
                if sequence.drafter is not None:
                    # One token is looked at even where none is drafted: whether it comes is learned for free.
                    sequence.proposal = sequence.drafter.propose(max(sequence.draft_limit, 1))
            return
        wanted = [(sequence, _useful(sequence)) for sequence in decoding]
        found = self._drafter.propose([entry for entry in wanted if entry[1] > 0], held=held, now=now)
        for sequence in decoding:
            sequence.proposal = found.get(sequence.request.id, ())

    def _cost(self, rows: int, length: int) -> float:
        drafting = 0.0 if self._drafter is None else self._drafter.seconds(rows - 1)
        return self._step_seconds[rows, length] + drafting


def _useful(sequence: Sequence) -> int:
    """Tokens worth drafting: the step gives one of the model's own, and what is beyond the answer's end is thrown away."""
    left = sequence.request.params.max_tokens - len(sequence.output) - 1
    return min(sequence.draft_limit, left)
