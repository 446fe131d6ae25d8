"""Keeps the engine's metric families under vLLM's names, with its labels and buckets, and a few of the worker's own."""

import itertools
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tierwright_worker.engine.service import EngineFacts, EngineState, IterationRecord
from tierwright_worker.server.generation import Choice, Delta

FINISHED_REASONS = ("stop", "length", "abort", "error", "repetition")
REJECTION_REASONS = ("max_num_queued_reqs", "max_num_queued_tokens")
PROMPT_SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
CACHE_SOURCES = ("device", "host", "p2p", "disk", "external_unspecified")
SPECULATION_STATES = ("off", "batch", "plain", "probe", "pays")
EVICTION_REASONS = ("ttl", "pressure")
# Families of features that the worker does not have; dashboards made for vLLM find them at 0.
NOT_COUNTED = (
    "estimated_flops_per_gpu",
    "estimated_read_bytes_per_gpu",
    "estimated_write_bytes_per_gpu",
    "external_prefix_cache_queries",
    "external_prefix_cache_hits",
    "mm_cache_queries",
    "mm_cache_hits",
    "num_preemptions",
)
# fmt: off
FIRST_TOKEN_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560)
TOKEN_SECONDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
REQUEST_SECONDS = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
# fmt: on


def one_two_five(largest: int) -> list[int]:
    """1, 2, 5, 10, 20, 50 ... up to `largest`: vLLM's buckets for token counts."""
    series = (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))
    return list(itertools.takewhile(lambda bound: bound <= largest, series))


class EngineMetrics:
    """What happened to sequences and in iterations; `drafts` is the most tokens drafted in a step, 0 = no speculation.

    `buckets`: bounds by vLLM's name of the family, where they are not vLLM's own.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        model: str,
        facts: EngineFacts,
        drafts: int,
        buckets: Mapping[str, tuple[float, ...]],
    ) -> None:
        request_seconds = buckets.get("request_latency", REQUEST_SECONDS)
        token_seconds = buckets.get("inter_token_latency", TOKEN_SECONDS)
        self._families = _Families(registry, {"model_name": model, "engine": "0"}, request_seconds)
        make = self._families
        lengths = one_two_five(facts.max_length)
        for name in NOT_COUNTED:
            make.counter(name, "Not counted by this worker; stays 0.")
        self._running = make.gauge("num_requests_running", "Sequences that hold a slot.")
        self._waiting = make.gauge("num_requests_waiting", "Sequences that wait for a slot.")
        by_reason = make.gauges("num_requests_waiting_by_reason", "Waiting sequences by reason.", "reason")
        self._waiting_for_capacity = by_reason("capacity")
        by_reason("deferred")
        sleep = make.gauges("engine_sleep_state", "1 for the state that the engine is in.", "sleep_state")
        for state in ("awake", "weights_offloaded", "discard_all"):
            sleep(state).set(state == "awake")
        self._cache_usage = make.gauge("kv_cache_usage_perc", "Share of the slots' positions in use, 0 to 1.")
        self._cache_queries = make.counter(
            "prefix_cache_queries", "Prompt tokens looked up in the prompt cache."
        )
        self._cache_hits = make.counter("prefix_cache_hits", "Prompt tokens found in the prompt cache.")
        self._prompt_tokens = make.counter(
            "prompt_tokens", "Prompt tokens of sequences whose first token came."
        )
        self._by_source = make.counters(
            "prompt_tokens_by_source", "Prompt tokens by source.", "source", PROMPT_SOURCES
        )
        self._cached = make.counter("prompt_tokens_cached", "Prompt tokens served from the prompt cache.")
        self._cached_by_source = make.counters(
            "prompt_tokens_cached_by_source", "Cached prompt tokens by level.", "source", CACHE_SOURCES
        )
        self._generated = make.counter("generation_tokens", "Tokens generated.")
        self._success = make.counters(
            "request_success", "Finished sequences by reason.", "finished_reason", FINISHED_REASONS
        )
        rejections = Counter(
            "vllm:admission_rejections",
            "Requests that a limit of the queue refused.",
            ["model_name", "reason"],
            registry=registry,
        )
        self._rejections = {name: rejections.labels(model, name) for name in REJECTION_REASONS}
        self._request_prompt = make.histogram(
            "request_prompt_tokens", "Prompt tokens of a sequence.", lengths
        )
        self._request_generation = make.histogram(
            "request_generation_tokens", "Tokens of an answer.", lengths
        )
        self._largest = make.histogram("request_max_num_generation_tokens", "Tokens of an answer.", lengths)
        self._step_tokens = make.histogram("iteration_tokens_total", "Tokens of an iteration.", STEP_TOKENS)
        self._params_n = make.histogram("request_params_n", "The request's n.", (1, 2, 5, 10, 20))
        self._params_max = make.histogram("request_params_max_tokens", "The request's max_tokens.", lengths)
        self._first = make.histogram(
            "time_to_first_token_seconds",
            "Arrival to first token.",
            buckets.get("time_to_first_token", FIRST_TOKEN_SECONDS),
        )
        self._between = make.histogram("inter_token_latency_seconds", "Time between outputs.", token_seconds)
        self._per_token = make.histogram(
            "request_time_per_output_token_seconds", "Mean time of a token after the first.", token_seconds
        )
        self._end_to_end = make.seconds("e2e_request_latency", "Arrival to last token.")
        self._queued = make.seconds("request_queue_time", "Arrival to slot.")
        self._inference = make.seconds("request_inference_time", "Slot to last token.")
        self._prefill = make.seconds("request_prefill_time", "Slot to first token.")
        self._decode = make.seconds("request_decode_time", "First to last token.")
        self._preemptions = make.histogram(
            "request_num_preemptions", "Always 0: a slot is never taken back.", (1, 2, 3, 4, 5, 10, 20)
        )
        self._computed = make.histogram(
            "request_prefill_kv_computed_tokens", "Prompt tokens computed, not read from the cache.", lengths
        )
        self._accepted_at: list[Counter] = []
        if drafts:
            self._drafts = make.counter("spec_decode_num_drafts", "Steps of a sequence with drafted tokens.")
            self._drafted = make.counter("spec_decode_num_draft_tokens", "Tokens drafted.")
            self._accepted = make.counter("spec_decode_num_accepted_tokens", "Drafted tokens accepted.")
            positions = make.counters(
                "spec_decode_num_accepted_tokens_per_pos",
                "Accepted tokens by draft position.",
                "position",
                tuple(str(position) for position in range(drafts)),
            )
            self._accepted_at = list(positions.values())
        make.info(
            "cache_config_info",
            "The cache's configuration.",
            {"enable_prefix_caching": str(bool(facts.cache_pages)), **facts.details},
        )
        self._speculation = make.own_gauges(
            "tierwright_worker_speculation_state", "1 for what decided the last step's drafts.", "state"
        )
        self._drafting = make.own_gauges(
            "tierwright_worker_drafting_requests",
            "Requests that decode, by the tokens each may draft.",
            "tokens",
        )
        for tokens in range(facts.speculation.most_tokens + 1):
            self._drafting(str(tokens))
        self._most_tokens = facts.speculation.most_tokens
        make.own_info(
            "tierwright_worker_speculation_info",
            "How the engine speculates; lossy is the rule that bends, none = exact.",
            {"method": facts.speculation.method, "lossy": facts.speculation.lossy or "none"},
        )
        self._bent = make.own_counter(
            "tierwright_worker_speculation_bent_tokens", "Drafted tokens that a lossy rule alone let pass."
        )
        if facts.row_exact is not None and facts.agreement is not None:
            make.own_gauge(
                "tierwright_worker_row_exact", "1 where all step shapes gave the same bits at warm-up."
            ).set(facts.row_exact)
            make.own_gauge(
                "tierwright_worker_step_agreement",
                "Share of plain greedy tokens that wider steps gave as well, measured at the start.",
            ).set(facts.agreement)
        self._pages = make.own_gauges(
            "tierwright_worker_prompt_cache_pages", "Pages of the prompt cache in use.", "source"
        )
        room = make.own_gauges(
            "tierwright_worker_prompt_cache_page_room", "Pages there is room for.", "source"
        )
        for level, pages in facts.cache_pages.items():
            self._pages(level)
            room(level).set(pages)
        self._evictions = make.own_counters(
            "tierwright_worker_prompt_cache_evicted_pages",
            "Pages forgotten, by reason.",
            "reason",
            EVICTION_REASONS,
        )
        self._created = make.own_counters(
            "tierwright_worker_prompt_cache_created_tokens",
            "Prompt tokens written to the cache.",
            "kind",
            ("all",),
        )

    def refresh(self, state: EngineState) -> None:
        """Set the gauges; called at each scrape."""
        self._running.set(state.running)
        self._waiting.set(state.waiting)
        self._waiting_for_capacity.set(state.waiting)
        self._cache_usage.set(state.cache_usage)
        for name in SPECULATION_STATES:
            self._speculation(name).set(name == state.speculation)
        for tokens in range(self._most_tokens + 1):
            self._drafting(str(tokens)).set(state.drafting.get(tokens, 0))
        for level, pages in state.cache_pages.items():
            self._pages(level).set(pages)

    def iteration(self, record: IterationRecord) -> None:
        """Count one iteration of the device."""
        self._step_tokens.observe(record.prefill_tokens + record.generated_tokens)
        self._bent.inc(record.bent)
        self._cache_queries.inc(record.cache_queries)
        self._cache_hits.inc(sum(record.cache_hits.values()))
        for source, tokens in record.cache_hits.items():
            self._cached_by_source[source].inc(tokens)
        for reason, pages in record.cache_evictions.items():
            self._evictions[reason].inc(pages)
        if self._accepted_at and record.accepted:
            self._drafts.inc(len(record.accepted))
            self._drafted.inc(sum(record.drafted))
            self._accepted.inc(sum(record.accepted))
            for position, counter in enumerate(self._accepted_at):
                counter.inc(sum(1 for run in record.accepted if run > position))

    def delta(self, choice: Choice, delta: Delta, before: float) -> None:
        """Count what one step gave one answer; `before` is when its last tokens came, for all but the first."""
        self._generated.inc(len(delta.tokens))
        if delta.begun is not None:
            self._first.observe(max(0.0, delta.at - delta.begun.arrived))
            prompt, read = len(choice.prompt.tokens), choice.cache.read
            self._prompt_tokens.inc(prompt)
            self._cached.inc(read)
            self._by_source["local_compute"].inc(prompt - read)
            self._by_source["local_cache_hit"].inc(read)
            self._created["all"].inc(choice.cache.created)
        else:
            self._between.observe(max(0.0, delta.at - before))
        if delta.finish is not None:
            self._success[str(delta.finish)].inc()
            self._finished(choice)

    def abandoned(self, _: Choice) -> None:
        """Count an answer that the client or the server gave up."""
        self._success["abort"].inc()

    def failed(self, _: Choice) -> None:
        """Count an answer that the engine gave up."""
        self._success["error"].inc()

    def rejection(self, reason: str) -> None:
        """Count a request that the queue refused."""
        self._rejections[reason].inc()

    def _finished(self, choice: Choice) -> None:
        prompt = len(choice.prompt.tokens)
        self._request_prompt.observe(prompt)
        self._request_generation.observe(choice.generated)
        self._largest.observe(choice.generated)
        self._params_n.observe(choice.siblings)
        self._params_max.observe(choice.request.params.max_tokens)
        self._preemptions.observe(0)
        self._computed.observe(prompt - choice.cache.read)
        if choice.generated > 1:
            self._per_token.observe((choice.last_token - choice.first_token) / (choice.generated - 1))
        self._decode.observe(choice.last_token - choice.first_token)
        if choice.begun is not None:
            self._end_to_end.observe(max(0.0, choice.last_token - choice.begun.arrived))
            self._queued.observe(max(0.0, choice.begun.scheduled - choice.begun.arrived))
            self._inference.observe(max(0.0, choice.last_token - choice.begun.scheduled))
            self._prefill.observe(max(0.0, choice.first_token - choice.begun.scheduled))


class _Families:
    """Makes families that carry the labels common to all of them."""

    def __init__(
        self, registry: CollectorRegistry, labels: Mapping[str, str], request_seconds: Iterable[float]
    ) -> None:
        self._registry = registry
        self._labels = dict(labels)
        self._request_seconds = tuple(request_seconds)

    def counter(self, name: str, text: str) -> Counter:
        return Counter(f"vllm:{name}", text, [*self._labels], registry=self._registry).labels(**self._labels)

    def own_counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, [*self._labels], registry=self._registry).labels(**self._labels)

    def own_gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, [*self._labels], registry=self._registry).labels(**self._labels)

    def own_info(self, name: str, text: str, values: Mapping[str, str]) -> None:
        labels = {**self._labels, **values}
        Gauge(name, text, list(labels), registry=self._registry).labels(**labels).set(1)

    def counters(self, name: str, text: str, label: str, values: Iterable[str]) -> dict[str, Counter]:
        return self.own_counters(f"vllm:{name}", text, label, values)

    def own_counters(self, name: str, text: str, label: str, values: Iterable[str]) -> dict[str, Counter]:
        family = Counter(name, text, [*self._labels, label], registry=self._registry)
        return {value: family.labels(**self._labels, **{label: value}) for value in values}

    def gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"vllm:{name}", text, [*self._labels], registry=self._registry).labels(**self._labels)

    def gauges(self, name: str, text: str, label: str) -> "_Gauges":
        return self.own_gauges(f"vllm:{name}", text, label)

    def own_gauges(self, name: str, text: str, label: str) -> "_Gauges":
        return _Gauges(
            Gauge(name, text, [*self._labels, label], registry=self._registry), self._labels, label
        )

    def histogram(self, name: str, text: str, buckets: Iterable[float]) -> Histogram:
        family = Histogram(
            f"vllm:{name}", text, [*self._labels], buckets=tuple(buckets), registry=self._registry
        )
        return family.labels(**self._labels)

    def seconds(self, name: str, text: str) -> Histogram:
        return self.histogram(f"{name}_seconds", text, self._request_seconds)

    def info(self, name: str, text: str, values: Mapping[str, str]) -> None:
        labels = {"engine": self._labels["engine"], **values}
        Gauge(f"vllm:{name}", text, list(labels), registry=self._registry).labels(**labels).set(1)


class _Gauges:
    """One gauge family by the value of its own label."""

    def __init__(self, family: Gauge, labels: Mapping[str, str], label: str) -> None:
        self._family = family
        self._labels = labels
        self._label = label

    def __call__(self, value: str) -> Gauge:
        return self._family.labels(**self._labels, **{self._label: value})
