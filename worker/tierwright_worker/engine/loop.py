"""One iteration of the engine: ask the policies what runs next, run it, and hand every request what it gained.

Synchronous and without a clock of its own: a thread calls `iterate` as long as there is work. Everything it decides with
lies in `policies/`; everything that touches the device in `executor`.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tierwright_worker.engine.cached_prompts import NO_CACHE_EVENTS, CachedPrompts, CacheEvents
from tierwright_worker.engine.choosing import Choosing, logprobs_of
from tierwright_worker.engine.executor import Executor, StepResult, WarmUp
from tierwright_worker.engine.interface import (
    Admission,
    ConstraintError,
    FinishReason,
    Iteration,
    PrefillChunk,
    QueueLimits,
    RequestId,
    Shapes,
    SpeculationLimits,
    Step,
)
from tierwright_worker.engine.policies.acceptance import LayeredRule
from tierwright_worker.engine.policies.admission import admit
from tierwright_worker.engine.policies.breakpoints import CacheUsage
from tierwright_worker.engine.policies.fairness import FairShares
from tierwright_worker.engine.policies.finishing import keep, room
from tierwright_worker.engine.policies.scheduler import schedule
from tierwright_worker.engine.sequence import Output, Request, Sequence
from tierwright_worker.engine.speculation import BatchDrafter, Speculation

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the tier configures. `prefill_token_limit`: rows of one prefill chunk while any slot decodes.

    `layered`: where drafts may pass that are not the model's own choice; None, the default, keeps every answer exact.
    """

    queue: QueueLimits
    speculation: SpeculationLimits
    prefill_token_limit: int
    end_tokens: frozenset[int]
    layered: LayeredRule | None = None


class Engine:
    """Continuous batching over the slots of one executor. One thread at a time may call it."""

    def __init__(
        self,
        executor: Executor,
        warmed: WarmUp,
        settings: EngineSettings,
        prompts: CachedPrompts | None = None,
        drafter: BatchDrafter | None = None,
    ) -> None:
        """`executor` must be warmed; `warmed` says which step shapes may be used.

        `prompts` None caches no prompts; `drafter` None drafts by look-up in each request's own text.
        """
        self._prompts = prompts
        self._now = 0.0
        self._executor, self._settings = executor, settings
        self._choosing = Choosing(settings.end_tokens, settings.layered)
        planned = executor.shapes
        self.shapes = Shapes(planned.slots, warmed.step_rows, planned.length_buckets, planned.prefill_buckets)
        self.speculation = Speculation(
            settings.speculation, warmed.step_seconds, self.shapes.step_rows, drafter
        )
        self._shares = FairShares()
        self._waiting: dict[RequestId, Sequence] = {}
        self._running: dict[RequestId, Sequence] = {}
        self.counters = self.speculation.counters

    @property
    def context(self) -> int:
        """Tokens that prompt and output may have together; every row of the narrowest step must lie in the cache."""
        return self.shapes.max_length - self.shapes.step_rows[0] + 1

    @property
    def busy(self) -> bool:
        """Whether an iteration would do anything."""
        return bool(self._waiting or self._running)

    @property
    def waiting(self) -> int:
        """Requests without a slot."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return len(self._running)

    def holds_slot(self, request_id: RequestId) -> bool:
        """Whether a request has left the queue and not yet ended."""
        return request_id in self._running

    @property
    def cache_levels(self) -> Mapping[str, int]:
        """Pages of the prompt cache in use, by level."""
        return {} if self._prompts is None else self._prompts.levels

    @property
    def cache_usage(self) -> float:
        """Share of the slots' positions that hold something, from 0 to 1."""
        used = sum(sequence.computed for sequence in self._running.values())
        return used / (self.shapes.slots * self.shapes.max_length)

    def submit(self, request: Request, *, tokens_per_second: float | None = None) -> Admission:
        """Queue a request, or say why not. A prompt that fills the context is the caller's to refuse.

        Raises:
            ValueError: an empty prompt, one that leaves no room for a token, or an id that is already held.
        """
        if not 0 < len(request.prompt) < self.context:
            raise ValueError(
                f"a prompt of {len(request.prompt)} tokens; from 1 to {self.context - 1} fit this engine"
            )
        if request.id in self._waiting or request.id in self._running:
            raise ValueError(f"request {request.id} is already held")
        verdict = admit(
            len(request.prompt),
            waiting_requests=len(self._waiting),
            waiting_tokens=sum(sequence.prompt_tokens for sequence in self._waiting.values()),
            limits=self._settings.queue,
            tokens_per_second=tokens_per_second,
        )
        if verdict.admitted:
            share = self._shares.stamp(request.tenant, len(request.prompt) + request.params.max_tokens)
            keys = () if self._prompts is None else self._prompts.keys(request.prompt, request.tenant)
            self._waiting[request.id] = Sequence(request, share, self.speculation.begin(request), keys)
        return verdict

    def cancel(self, request_id: RequestId) -> bool:
        """Forget a request; its slot is free for the next iteration. False when it is not held (any more)."""
        return (self._waiting.pop(request_id, None) or self._running.pop(request_id, None)) is not None

    def cache_events(self) -> CacheEvents:
        """What happened in the prompt cache since the last call."""
        return NO_CACHE_EVENTS if self._prompts is None else self._prompts.take_events()

    def iterate(self, now: float = 0.0) -> list[Output]:
        """Run one iteration, and say what each request gained. Nothing happens when nothing is held.

        now: seconds on a clock that never goes back; cached prompts live by it.
        """
        self._now = now
        self.speculation.choose(list(self._running.values()), self._executor.length, now)
        plan = schedule(
            [sequence.waiting() for sequence in self._waiting.values()],
            [sequence.running() for sequence in self._running.values()],
            cached_tokens=self._cached_tokens(),
            shapes=self.shapes,
            prefill_token_limit=self._settings.prefill_token_limit,
        )
        admitted = self._admit(plan)
        self._fit_length(plan)
        self._restore(admitted)
        if plan.prefill is not None:
            self._prefill(plan.prefill)
        return self._step(plan.step) if plan.step is not None else []

    def _cached_tokens(self) -> dict[RequestId, int]:
        """What the cache would supply to those who may get a slot now."""
        if self._prompts is None or len(self._running) == self.shapes.slots:
            return {}
        return {
            request_id: self._prompts.found(sequence.keys, sequence.prompt_tokens, now=self._now)
            for request_id, sequence in self._waiting.items()
        }

    def _admit(self, plan: Iteration) -> list[Sequence]:
        admitted = []
        for request_id, slot in plan.admissions:
            sequence = self._waiting.pop(request_id)
            sequence.slot = slot
            self._running[request_id] = sequence
            self._shares.served(sequence.share)
            if self._prompts is not None:
                sequence.computed = self._prompts.found(sequence.keys, sequence.prompt_tokens, now=self._now)
            admitted.append(sequence)
        return admitted

    def _restore(self, admitted: Iterable[Sequence]) -> None:
        """Copy cached beginnings into their slots, once the cache is long enough for them."""
        if self._prompts is None:
            return
        for sequence in admitted:
            slot = self._slot_of(sequence)
            sequence.read = self._prompts.restore(sequence.keys, sequence.prompt_tokens, slot, now=self._now)

    def _keep(self, sequence: Sequence, used: int) -> None:
        """Keep what an ended answer has added, for the conversation may go on; only where all of it is worth caching."""
        if self._prompts is None or sequence.request.breakpoints is not None:
            return
        keys = self._prompts.keys(sequence.known(0, used), sequence.request.tenant)
        self._prompts.store(keys, used, self._slot_of(sequence), None, read=0, now=self._now)

    def _usage(self, sequence: Sequence) -> CacheUsage:
        """What the cache had of a prompt, which is kept from its first token on."""
        prompt, request = sequence.prompt_tokens, sequence.request
        if self._prompts is None:
            return CacheUsage(0, 0, 0, prompt)
        slot, read = self._slot_of(sequence), sequence.read
        return self._prompts.store(sequence.keys, prompt, slot, request.breakpoints, read=read, now=self._now)

    def _fit_length(self, plan: Iteration) -> None:
        """Give the cache the shortest bucket that holds the plan and every occupied slot."""
        # A step writes at every occupied slot's position, of those that only look on as well: beyond the end it would be
        # clamped onto the last position, which is not theirs to lose. A chunk of this iteration moves its slot's first.
        rows = self.shapes.step_rows[0]
        needed = max((sequence.computed + rows for sequence in self._running.values()), default=1)
        if plan.prefill is not None:
            chunk = plan.prefill
            needed = max(needed, chunk.length_bucket, chunk.start + chunk.tokens + rows)
        if plan.step is not None:
            needed = max(needed, plan.step.length_bucket)
        length = next(bucket for bucket in self.shapes.length_buckets if bucket >= needed)
        # Shrinking copies the whole cache, so it waits until no request is left that might soon need the room.
        if length > self._executor.length or not any(s.computed for s in self._running.values()):
            self._executor.set_length(length)

    def _prefill(self, chunk: PrefillChunk) -> None:
        sequence = self._in_slot(chunk.slot)
        # On a longer cache than planned for, the chunk still fits; its padding is overwritten before it is seen.
        tokens = sequence.known(chunk.start, chunk.start + chunk.tokens)
        self._executor.prefill(chunk.slot, chunk.start, tokens, chunk.bucket)
        sequence.computed = chunk.start + chunk.tokens
        self.counters.prefill_tokens += chunk.tokens
        for other in self._running.values():
            other.passed_over = other.passed_over + 1 if other.prefilling and other is not sequence else 0

    def _step(self, step: Step) -> list[Output]:
        rows = self._harmless_rows(step)
        tokens = np.zeros((self.shapes.slots, rows), np.int32)
        # Idle slots hold nothing to lose, and at their beginning there is least to attend to.
        positions = np.zeros(self.shapes.slots, np.int32)
        taking_part: list[tuple[Sequence, tuple[int, ...]]] = []
        for sequence in self._running.values():
            slot, at = self._slot_of(sequence), sequence.computed
            positions[slot] = at
            if slot not in step.drafts:
                continue  # it is being prefilled: what the step writes there, its next chunk overwrites
            draft = sequence.proposal[: min(step.drafts[slot], rows - 1)]
            tokens[slot, : 1 + len(draft)] = [*sequence.known(at, at + 1), *draft]
            taking_part.append((sequence, draft))
        result = self._executor.step(tokens, positions)
        self.counters.steps += 1
        needs_logits = any(self._choosing.needs_logits(sequence, draft) for sequence, draft in taking_part)
        logits = result.host_logits() if needs_logits else None
        return [self._gain(sequence, draft, result, logits) for sequence, draft in taking_part]

    def _harmless_rows(self, step: Step) -> int:
        """The step's rows, or fewer where a slot that only looks on has no room for what they would write."""
        lookers_on = [s.computed for s in self._running.values() if self._slot_of(s) not in step.drafts]
        room_left = self._executor.length - max(lookers_on, default=0)
        fitting = [rows for rows in self.shapes.step_rows if rows <= min(step.rows, room_left)]
        return fitting[-1] if fitting else self.shapes.step_rows[0]

    def _gain(
        self,
        sequence: Sequence,
        draft: tuple[int, ...],
        result: StepResult,
        logits: npt.NDArray[np.float32] | None,
    ) -> Output:
        slot, request = self._slot_of(sequence), sequence.request
        rows = None if logits is None else logits[slot, : len(draft) + 1]
        already, constraint = len(sequence.output), request.constraint
        # Drafts may reach one token further than the context that plain decoding keeps to.
        fits = room(already, sequence.prompt_tokens + already, self.context, request.params.max_tokens)
        try:
            gained = self._choosing.accept(sequence, draft, [int(token) for token in result.best[slot]], rows)
            kept = keep(
                gained.tokens[:fits],
                already=already,
                params=request.params,
                end_tokens=self._settings.end_tokens,
            )
            complete = kept.reason is None and constraint is not None and constraint.take(kept.tokens)
        except Exception as error:
            # Choosing a token is the host's own arithmetic: whatever fails there is this request's, and no one else's.
            return self._give_up(sequence, error)
        self.speculation.learn(sequence, draft, gained)
        reason = FinishReason.STOP if complete else kept.reason
        sequence.take(kept.tokens)
        sequence.computed += len(kept.tokens)
        used = sequence.prompt_tokens + len(sequence.output)
        if reason is None and not room(len(sequence.output), used, self.context, request.params.max_tokens):
            reason = FinishReason.LENGTH
        usage = None if already else self._usage(sequence)
        if reason is not None:
            # The last token was never computed: nothing followed it.
            self._keep(sequence, min(sequence.computed, used - 1))
            del self._running[request.id]
        self.counters.generated_tokens += len(kept.tokens)
        return Output(
            id=request.id,
            tokens=kept.tokens,
            logprobs=logprobs_of(sequence, rows, kept.tokens),
            finished=reason,
            ended_by=kept.ended_by,
            drafted=len(draft),
            accepted=min(gained.accepted, len(kept.tokens)),
            bent=min(gained.bent, len(kept.tokens)),
            cache=usage,
        )

    def _give_up(self, sequence: Sequence, error: Exception) -> Output:
        """End one request that cannot go on; the others do."""
        bug = None if isinstance(error, ConstraintError) else error
        _log.warning("request %s ends: %s", sequence.request.id, error, exc_info=bug)
        del self._running[sequence.request.id]
        return Output(sequence.request.id, (), finished=FinishReason.ERROR)

    def _in_slot(self, slot: int) -> Sequence:
        return next(sequence for sequence in self._running.values() if sequence.slot == slot)

    @staticmethod
    def _slot_of(sequence: Sequence) -> int:
        if sequence.slot is None:
            raise AssertionError(f"running request {sequence.request.id} holds no slot")
        return sequence.slot
