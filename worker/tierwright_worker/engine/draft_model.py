"""Drafts with a small model: its own executor and slot cache follow what the engine has decided, slot by slot.

A request that is sampled is drafted with the very random numbers that will choose its tokens. Where both models agree on the
distribution they then agree on the token, and what comes out stays the target's own choice: plain sampling, to the token.
"""

from collections import Counter
from collections.abc import Sequence as Several
from dataclasses import dataclass, field, replace

import numpy as np

from tierwright_worker.engine.cached_prompts import CachedPrompts
from tierwright_worker.engine.executor import Executor, StepResult, WarmUp
from tierwright_worker.engine.interface import RequestId, Slot
from tierwright_worker.engine.policies.acceptance import accept_sampled
from tierwright_worker.engine.sequence import Sequence


@dataclass(slots=True)
class _Read:
    """What the draft model's cache holds of one request: `certain` positions, then those of tokens that it guessed.

    `stored`: pages of it that the prompt cache was given.
    """

    id: RequestId
    certain: int = 0
    stored: int = 0
    guessed: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The first position that holds nothing."""
        return self.certain + len(self.guessed)

    def confirm(self, sequence: Sequence) -> None:
        """Keep of the guesses what the sequence has become; its last token is always fed again, to have what follows it."""
        for token in self.guessed:
            if self.certain + 1 >= _known(sequence) or sequence.known(self.certain, self.certain + 1) != [
                token
            ]:
                break
            self.certain += 1
        self.guessed = []

    def cut(self, end: int) -> None:
        """Forget what lies from `end` on."""
        self.guessed = self.guessed[: max(0, end - self.certain)]
        self.certain = min(self.certain, end)


@dataclass(slots=True)
class _Draft:
    """One sequence's draft while it grows. `pending`: tokens to feed next."""

    sequence: Sequence
    read: _Read
    count: int
    pending: list[int]
    tokens: list[int] = field(default_factory=list)

    @property
    def unfinished(self) -> bool:
        """Whether more tokens are wanted."""
        return len(self.tokens) < self.count


class DraftModel:
    """A model of the same tokenizer that proposes what the target verifies. One thread at a time may call it."""

    def __init__(
        self,
        executor: Executor,
        warmed: WarmUp,
        *,
        vocabulary: int,
        end_tokens: frozenset[int],
        prefill_token_limit: int,
        prompts: CachedPrompts | None = None,
    ) -> None:
        """`executor`: warmed, with the target's slots and lengths. `vocabulary`: the target's; ids beyond are no draft.

        `prefill_token_limit`: prompt tokens read for drafting in one call, so that those who decode hardly wait.
        `prompts`: this model's own pages of prompts, so that one that the target need not read is not read here either.
        """
        self._prompts = prompts
        self._executor = executor
        self._rows = warmed.step_rows
        self._seconds = warmed.step_seconds
        self._vocabulary, self._end_tokens = vocabulary, end_tokens
        buckets = executor.shapes.prefill_buckets
        self._buckets = [bucket for bucket in buckets if bucket <= prefill_token_limit] or [buckets[0]]
        self._reads: dict[Slot, _Read] = {}

    def seconds(self, tokens: int) -> float:
        """What drafting so many tokens costs, by the times measured at warm-up."""
        return tokens * self._seconds[self._rows[0], self._executor.length]

    def propose(
        self, wanted: Several[tuple[Sequence, int]], *, held: Several[Sequence], now: float
    ) -> dict[RequestId, tuple[int, ...]]:
        """At most so many tokens for each sequence; of prompts that are not read yet, one chunk is read instead."""
        alive = {sequence.slot: sequence.request.id for sequence in held}
        self._reads = {slot: read for slot, read in self._reads.items() if alive.get(slot) == read.id}
        drafts: dict[Slot, _Draft] = {}
        chunk_left = True
        for sequence, count in wanted:
            draft = self._begin(sequence, count, now)
            if draft is None:
                continue
            if len(draft.pending) > self._rows[-1] and chunk_left:
                chunk_left = False
                self._prefill(draft)
            if len(draft.pending) <= self._rows[-1]:
                drafts[_slot(sequence)] = draft
        while any(draft.unfinished for draft in drafts.values()):
            self._step(drafts)
        return {draft.sequence.request.id: tuple(draft.tokens) for draft in drafts.values() if draft.tokens}

    def _begin(self, sequence: Sequence, count: int, now: float) -> _Draft | None:
        slot, known = _slot(sequence), _known(sequence)
        # Each row of the last step must lie within the longest cache.
        count = min(count, self._executor.shapes.max_length - known - self._rows[-1] + 2)
        if count < 1:
            return None
        if slot not in self._reads:
            self._reads[slot] = _Read(sequence.request.id, *self._restore(sequence, now))
        read = self._reads[slot]
        read.confirm(sequence)
        self._store(sequence, read, now)
        return _Draft(sequence, read, count, sequence.known(read.certain, known))

    def _restore(self, sequence: Sequence, now: float) -> tuple[int, int]:
        """Copy what is cached of a prompt into the slot; the tokens and the pages that it holds then."""
        if self._prompts is None:
            return 0, 0
        request = sequence.request
        keys = self._prompts.keys(request.prompt, request.tenant)
        found = self._prompts.found(keys, len(request.prompt), now=now)
        if found == 0:
            return 0, 0
        self._reach(found + self._rows[-1])
        tokens = self._prompts.restore(keys, len(request.prompt), _slot(sequence), now=now)
        return tokens, tokens // self._prompts.page_tokens

    def _store(self, sequence: Sequence, read: _Read, now: float) -> None:
        """Keep the pages that have become full since the last time: of the prompt, and of the answer where all may be cached."""
        request = sequence.request
        if self._prompts is None or read.certain < len(request.prompt):
            return
        whole = len(request.prompt) if request.breakpoints is not None else read.certain
        pages = whole // self._prompts.page_tokens
        if pages <= read.stored:
            return
        keys = self._prompts.keys(sequence.known(0, whole), request.tenant)
        self._prompts.store(keys, whole, _slot(sequence), request.breakpoints, read=0, now=now)
        read.stored = pages

    def _prefill(self, draft: _Draft) -> None:
        """Read one chunk of what the draft model has not seen; the last token is left to a step."""
        read, sequence = draft.read, draft.sequence
        last = _known(sequence) - 1
        longest = self._executor.shapes.max_length
        fitting = [bucket for bucket in self._buckets if read.certain + bucket <= longest] or self._buckets[
            :1
        ]
        left = last - read.certain
        bucket = next((size for size in fitting if size >= left), fitting[-1])
        # Padded rows write too: near the end a chunk begins earlier and computes some positions again.
        start = min(read.certain, longest - bucket)
        stop = min(start + bucket, last)
        self._reach(start + bucket)
        self._executor.prefill(_slot(sequence), start, sequence.known(start, stop), bucket)
        read.certain = stop
        draft.pending = sequence.known(stop, last + 1)

    def _step(self, drafts: dict[Slot, _Draft]) -> None:
        """Feed every unfinished draft its pending tokens, and give it the token that follows."""
        feeding = {slot: draft for slot, draft in drafts.items() if draft.unfinished}
        most = max(len(draft.pending) for draft in feeding.values())
        rows = next(size for size in self._rows if size >= most)
        self._reach(max(draft.read.end for draft in feeding.values()) + rows)
        tokens = np.zeros((self._executor.shapes.slots, rows), np.int32)
        # Slots that hold nothing have nothing to lose, and at their beginning there is least to attend to.
        positions = np.zeros(self._executor.shapes.slots, np.int32)
        for slot, read in self._reads.items():
            # A slot that only looks on is written to as well: behind its end, or what is overwritten is forgotten.
            positions[slot] = min(read.end, self._executor.length - rows)
            read.cut(int(positions[slot]))
        for slot, draft in feeding.items():
            tokens[slot, : len(draft.pending)] = draft.pending
        result = self._executor.step(tokens, positions)
        for slot, draft in feeding.items():
            token = self._pick(draft, result, slot)
            draft.read.guessed += draft.pending
            if token >= self._vocabulary:
                draft.count = len(draft.tokens)
                continue
            draft.tokens.append(token)
            draft.pending = [token]

    def _pick(self, draft: _Draft, result: StepResult, slot: Slot) -> int:
        """The token that the draft model would take, as the target will choose: greedily, or with the same random numbers."""
        sequence, params = draft.sequence, draft.sequence.request.params
        row = len(draft.pending) - 1
        if params.greedy:
            return int(result.best[slot, row])
        context = sequence.sampling_context(self._end_tokens)
        if params.changes_logits:
            output = Counter(context.output)
            output.update(draft.tokens)
            context = replace(context, output=output)
        logits = result.host_logits()[slot, row : row + 1]
        position = _known(sequence) + len(draft.tokens)
        return accept_sampled((), logits, params, position=position, context=context).tokens[0]

    def _reach(self, needed: int) -> None:
        """Make the cache long enough; it shrinks only while it holds nothing."""
        length = next(bucket for bucket in self._executor.shapes.length_buckets if bucket >= needed)
        if length > self._executor.length or not any(read.end for read in self._reads.values()):
            self._executor.set_length(length)


def _known(sequence: Sequence) -> int:
    return sequence.prompt_tokens + len(sequence.output)


def _slot(sequence: Sequence) -> Slot:
    if sequence.slot is None:
        raise AssertionError(f"request {sequence.request.id} drafts without a slot")
    return sequence.slot
