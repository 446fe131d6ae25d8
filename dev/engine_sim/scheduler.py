"""Decides what each engine step computes: continuous batching, chunked prefill, a KV budget, first come first served.

Pure: time comes in as an argument (seconds on any monotonic clock), steps go out as values. `plan` chooses the next
step and says how long it takes; the caller lets that time pass and hands the plan back to `complete`.
"""

from collections import deque
from dataclasses import dataclass, field

from dev.engine_sim.kv_cache import KvCache
from dev.engine_sim.speculation import Speculation
from dev.engine_sim.step_time import StepTimeModel
from dev.engine_sim.steps import Limits, Progress, Request, RequestRecord, StepOutcome, StepPlan, Work


@dataclass
class _Sequence:
    request: Request
    arrived: float
    computed: int = 0
    emitted: int = 0
    cached: int = 0
    preemptions: int = 0
    scheduled: float | None = None
    first_token: float | None = None
    last_token: float | None = None

    @property
    def known(self) -> int:
        """Tokens whose text is known: the prompt and what was generated so far."""
        return self.request.prompt_tokens + self.emitted

    @property
    def decodes(self) -> bool:
        """Whether all but the newest generated token is in the KV cache."""
        return self.emitted > 0 and self.known - self.computed == 1


@dataclass
class Scheduler:
    """The queue, the running batch and the KV cache of one engine."""

    limits: Limits
    step_time: StepTimeModel
    kv_cache: KvCache
    speculation: Speculation | None = None
    _waiting: deque[_Sequence] = field(default_factory=deque)
    _running: list[_Sequence] = field(default_factory=list)
    _prefix_queries: int = 0
    _prefix_hits: int = 0

    @property
    def waiting(self) -> int:
        """Sequences in the queue."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Sequences in the batch."""
        return len(self._running)

    def rejection(self, sequences: int) -> str | None:
        """The queue limit that forbids `sequences` more, by the name that vLLM's metric gives it, or None."""
        limits = self.limits
        in_flight = self.waiting + self.running
        if limits.max_queued_requests is not None and in_flight + sequences > limits.max_queued_requests:
            return "max_num_queued_reqs"
        if limits.max_queued_tokens is not None:
            prefilling = [item for item in (*self._waiting, *self._running) if item.emitted == 0]
            if sum(item.request.prompt_tokens for item in prefilling) >= limits.max_queued_tokens:
                return "max_num_queued_tokens"
        return None

    def add(self, request: Request, now: float) -> None:
        """Queue a request; ValueError where no empty cache could ever hold it."""
        whole = request.prompt_tokens + request.output_tokens
        if request.prompt_tokens < 1 or request.output_tokens < 1:
            raise ValueError(f"request {request.request_id}: prompt and answer need at least one token each")
        if self.kv_cache.blocks_for(whole) > self.kv_cache.total_blocks:
            raise ValueError(
                f"request {request.request_id}: {whole} tokens are more than the whole KV cache holds"
            )
        self._waiting.append(_Sequence(request, arrived=now))

    def abort(self, request_id: str) -> bool:
        """Forget a request wherever it is; False when it is not there any more."""
        for sequence in self._running:
            if sequence.request.request_id == request_id:
                self._running.remove(sequence)
                self.kv_cache.release(request_id)
                return True
        for sequence in self._waiting:
            if sequence.request.request_id == request_id:
                self._waiting.remove(sequence)
                return True
        return False

    def plan(self, now: float) -> StepPlan | None:
        """Choose the next step, None when there is nothing to do."""
        work: list[Work] = []
        preempted: list[str] = []
        budget = self.limits.max_batched_tokens
        drafts_wanted = self.speculation.draft_tokens(self._decoding()) if self.speculation else 0
        context = 0
        index = 0
        while index < len(self._running) and budget > 0:
            sequence = self._running[index]
            behind = len(self._running) - index - 1
            if sequence.decodes:
                left = sequence.request.output_tokens - sequence.emitted
                item = Work(
                    sequence.request.request_id, 0, max(0, min(drafts_wanted, left - 1, budget - 1 - behind))
                )
                tokens = 1 + item.drafts
            else:
                tokens = self._chunk(sequence.known - sequence.computed, budget)
                item = Work(sequence.request.request_id, tokens)
            if not self._make_room(sequence, sequence.computed + tokens, preempted):
                break
            work.append(item)
            context += sequence.computed
            budget -= tokens
            index += 1
        if not preempted:
            context += self._admit(work, budget, now)
        if not work:
            return None
        drafts = sum(item.drafts for item in work)
        seconds = self.step_time.seconds(
            sequences=len(work),
            context_tokens=context,
            prefill_tokens=sum(item.prefill for item in work),
            draft_tokens=drafts,
        )
        return StepPlan(tuple(work), seconds, tuple(preempted))

    def complete(self, plan: StepPlan, now: float) -> StepOutcome:
        """Take a step's results at `now`; sequences aborted meanwhile are left out."""
        running = {sequence.request.request_id: sequence for sequence in self._running}
        progress: list[Progress] = []
        accepted_runs: list[int] = []
        for item in plan.work:
            sequence = running.get(item.request_id)
            if sequence is None:
                continue
            if item.prefill:
                sequence.computed += item.prefill
                new_tokens = 1 if sequence.computed == sequence.known else 0
            else:
                accepted = _accepted(sequence, item.drafts)
                if item.drafts:
                    accepted_runs.append(accepted)
                new_tokens = 1 + accepted
                sequence.computed += new_tokens
            self.kv_cache.publish(item.request_id, sequence.request.block_hashes, sequence.computed)
            if new_tokens:
                progress.append(self._emit(sequence, new_tokens, now))
        queries, hits = self._prefix_queries, self._prefix_hits
        self._prefix_queries = self._prefix_hits = 0
        return StepOutcome(
            progress=tuple(progress),
            prefill_tokens=sum(item.prefill for item in plan.work),
            preemptions=len(plan.preempted),
            draft_tokens=sum(item.drafts for item in plan.work),
            accepted_runs=tuple(accepted_runs),
            prefix_queries=queries,
            prefix_hits=hits,
        )

    def _decoding(self) -> int:
        return sum(1 for sequence in self._running if sequence.decodes)

    def _chunk(self, pending: int, budget: int) -> int:
        if self.limits.long_prefill_threshold > 0:
            pending = min(pending, self.limits.long_prefill_threshold)
        return min(pending, budget)

    def _make_room(self, sequence: _Sequence, tokens: int, preempted: list[str]) -> bool:
        """Extend a sequence, preempting the youngest running ones; False when it had to give way itself."""
        while not self.kv_cache.extend(sequence.request.request_id, tokens):
            victim = self._running.pop()
            self.kv_cache.release(victim.request.request_id)
            victim.computed = 0
            victim.preemptions += 1
            preempted.append(victim.request.request_id)
            self._waiting.appendleft(victim)
            if victim is sequence:
                return False
        return True

    def _admit(self, work: list[Work], budget: int, now: float) -> int:
        """Move requests from the queue's head into the batch while they fit; returns their cached context tokens."""
        context = 0
        while self._waiting and len(self._running) < self.limits.max_sequences and budget > 0:
            sequence = self._waiting[0]
            request = sequence.request
            cached = self.kv_cache.cached_tokens(request.block_hashes, sequence.known)
            pending = sequence.known - cached
            if not self.limits.chunked_prefill and pending > budget:
                break
            tokens = self._chunk(pending, budget)
            if not self.kv_cache.admit(request.request_id, request.block_hashes, cached, cached + tokens):
                break
            self._waiting.popleft()
            self._running.append(sequence)
            sequence.computed = cached
            if sequence.scheduled is None:
                sequence.scheduled = now
                sequence.cached = cached
                self._prefix_queries += request.prompt_tokens
                self._prefix_hits += cached
            work.append(Work(request.request_id, tokens))
            context += cached
            budget -= tokens
        return context

    def _emit(self, sequence: _Sequence, new_tokens: int, now: float) -> Progress:
        since_last = None if sequence.last_token is None else now - sequence.last_token
        sequence.emitted += new_tokens
        sequence.last_token = now
        sequence.first_token = now if sequence.first_token is None else sequence.first_token
        record = None
        if sequence.emitted == sequence.request.output_tokens:
            record = self._finish(sequence, sequence.first_token, now)
        return Progress(
            sequence.request.request_id,
            new_tokens,
            now,
            since_last,
            now - sequence.arrived,
            sequence.request.prompt_tokens,
            sequence.cached,
            record,
        )

    def _finish(self, sequence: _Sequence, first_token: float, now: float) -> RequestRecord:
        self._running.remove(sequence)
        self.kv_cache.release(sequence.request.request_id)
        return RequestRecord(
            prompt_tokens=sequence.request.prompt_tokens,
            output_tokens=sequence.emitted,
            cached_tokens=sequence.cached,
            preemptions=sequence.preemptions,
            arrived=sequence.arrived,
            scheduled=sequence.arrived if sequence.scheduled is None else sequence.scheduled,
            first_token=first_token,
            last_token=now,
        )


def _accepted(sequence: _Sequence, drafts: int) -> int:
    """Drafted tokens accepted before the first wrong one."""
    guesses = sequence.request.draftable[sequence.emitted : sequence.emitted + drafts]
    return guesses.index(False) if False in guesses else len(guesses)
