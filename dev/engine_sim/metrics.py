"""Keeps the metric families of a vLLM server, with its names, labels and buckets, in one registry."""

import itertools
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from dev.engine_sim.cache_info import cache_config_labels
from dev.engine_sim.config import EngineConfig
from dev.engine_sim.scheduler import Scheduler
from dev.engine_sim.steps import RequestRecord, StepOutcome

FINISHED_REASONS = ("stop", "length", "abort", "error", "repetition")
REJECTION_REASONS = ("max_num_queued_reqs", "max_num_queued_tokens")
PROMPT_SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
CACHE_SOURCES = ("device", "host", "p2p", "disk", "external_unspecified")
FIRST_TOKEN_SECONDS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
)  # fmt: skip
TOKEN_SECONDS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
)  # fmt: skip
REQUEST_SECONDS = (
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
)  # fmt: skip
STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


def one_two_five(largest: int) -> list[int]:
    """1, 2, 5, 10, 20, 50 ... up to `largest`: vLLM's buckets for token counts, bounded by the model's length."""
    series = (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))
    return list(itertools.takewhile(lambda bound: bound <= largest, series))


class EngineMetrics:
    """The families about engine and requests; `model_name` is the first served name, `engine` is always "0"."""

    def __init__(self, config: EngineConfig) -> None:
        self.registry = CollectorRegistry()
        GCCollector(self.registry)
        PlatformCollector(self.registry)
        ProcessCollector(registry=self.registry)
        self._labels = {"model_name": config.served_names[0], "engine": "0"}
        chosen = config.histogram_buckets
        lengths = chosen.get("request_tokens") or one_two_five(config.max_model_len)
        token_seconds = chosen.get("inter_token_latency", TOKEN_SECONDS)
        self._request_seconds = chosen.get("request_latency", REQUEST_SECONDS)
        for name in (
            "estimated_flops_per_gpu",
            "estimated_read_bytes_per_gpu",
            "estimated_write_bytes_per_gpu",
        ):
            self._counter(name, "Not estimated by the simulator; stays 0.")
        self._running = self._gauge("num_requests_running", "Requests in the running batch.")
        self._waiting = self._gauge("num_requests_waiting", "Requests waiting to be scheduled.")
        reasons = self._gauge_family(
            "num_requests_waiting_by_reason", "Waiting requests by reason.", "reason"
        )
        self._waiting_for_capacity = reasons.labels(**self._labels, reason="capacity")
        reasons.labels(**self._labels, reason="deferred")
        sleep = self._gauge_family(
            "engine_sleep_state", "1 for the state that the engine is in.", "sleep_state"
        )
        for state in ("awake", "weights_offloaded", "discard_all"):
            sleep.labels(**self._labels, sleep_state=state).set(1 if state == "awake" else 0)
        self._kv_usage = self._gauge("kv_cache_usage_perc", "Share of KV cache blocks in use, 0 to 1.")
        self._prefix_queries = self._counter(
            "prefix_cache_queries", "Prompt tokens looked up in the prefix cache."
        )
        self._prefix_hits = self._counter("prefix_cache_hits", "Prompt tokens found in the prefix cache.")
        for name in (
            "external_prefix_cache_queries",
            "external_prefix_cache_hits",
            "mm_cache_queries",
            "mm_cache_hits",
        ):
            self._counter(name, "Not simulated; stays 0.")
        self._preemptions = self._counter(
            "num_preemptions", "Sequences that gave their KV blocks back to others."
        )
        self._prompt_tokens = self._counter(
            "prompt_tokens", "Prompt tokens of requests whose first token came."
        )
        by_source = self._counter_family(
            "prompt_tokens_by_source", "Prompt tokens by where they came from.", "source"
        )
        self._prompt_by_source = {
            name: by_source.labels(**self._labels, source=name) for name in PROMPT_SOURCES
        }
        self._cached_tokens = self._counter("prompt_tokens_cached", "Prompt tokens served from a cache.")
        cached = self._counter_family(
            "prompt_tokens_cached_by_source", "Cached prompt tokens by cache.", "source"
        )
        self._cached_by_source = {name: cached.labels(**self._labels, source=name) for name in CACHE_SOURCES}
        self._generated = self._counter("generation_tokens", "Tokens generated.")
        success = self._counter_family("request_success", "Finished requests by reason.", "finished_reason")
        self._success = {
            name: success.labels(**self._labels, finished_reason=name) for name in FINISHED_REASONS
        }
        rejections = Counter(
            "vllm:admission_rejections",
            "Requests that a queue limit refused.",
            ["model_name", "reason"],
            registry=self.registry,
        )
        self._rejections = {
            name: rejections.labels(model_name=config.served_names[0], reason=name)
            for name in REJECTION_REASONS
        }
        self._request_prompt = self._histogram(
            "request_prompt_tokens", "Prompt tokens of a request.", lengths
        )
        self._request_generation = self._histogram("request_generation_tokens", "Tokens generated.", lengths)
        self._step_tokens = self._histogram(
            "iteration_tokens_total", "Tokens of an engine step.", chosen.get("iteration_tokens", STEP_TOKENS)
        )
        self._largest_generation = self._histogram(
            "request_max_num_generation_tokens",
            "Most tokens generated by one sequence of a request.",
            lengths,
        )
        self._params_n = self._histogram(
            "request_params_n", "The request's n.", chosen.get("request_params_n", (1, 2, 5, 10, 20))
        )
        self._params_max_tokens = self._histogram(
            "request_params_max_tokens", "The request's max_tokens.", lengths
        )
        self._first_token = self._histogram(
            "time_to_first_token_seconds",
            "Time to first token.",
            chosen.get("time_to_first_token", FIRST_TOKEN_SECONDS),
        )
        self._between_tokens = self._histogram(
            "inter_token_latency_seconds", "Time between outputs.", token_seconds
        )
        self._per_token = self._histogram(
            "request_time_per_output_token_seconds",
            "A request's mean time for a token after the first.",
            token_seconds,
        )
        self._end_to_end = self._seconds("e2e_request_latency", "Arrival to last token.")
        self._queued = self._seconds("request_queue_time", "Arrival to first scheduled.")
        self._inference = self._seconds("request_inference_time", "First scheduled to last token.")
        self._prefill = self._seconds("request_prefill_time", "First scheduled to first token.")
        self._decode = self._seconds("request_decode_time", "First to last token.")
        self._request_preemptions = self._histogram(
            "request_num_preemptions",
            "How often a request was preempted.",
            chosen.get("request_num_preemptions", (1, 2, 3, 4, 5, 10, 20)),
        )
        self._prefill_computed = self._histogram(
            "request_prefill_kv_computed_tokens", "Prompt tokens computed, cached ones left out.", lengths
        )
        if config.speculation is not None:
            self._drafts = self._counter("spec_decode_num_drafts", "Decodes that had tokens drafted.")
            self._draft_tokens = self._counter("spec_decode_num_draft_tokens", "Tokens drafted.")
            self._accepted = self._counter("spec_decode_num_accepted_tokens", "Drafted tokens accepted.")
            per_position = self._counter_family(
                "spec_decode_num_accepted_tokens_per_pos", "Accepted tokens by draft position.", "position"
            )
            longest = max(
                config.speculation.tokens, *(entry[2] for entry in config.speculation.by_batch_size), 1
            )
            self._accepted_at = [per_position.labels(**self._labels, position=str(i)) for i in range(longest)]
        labels = cache_config_labels(config) | {"engine": "0"}
        info = Gauge(
            "vllm:cache_config_info", "The KV cache's configuration.", list(labels), registry=self.registry
        )
        info.labels(**labels).set(1)

    def refresh(self, scheduler: Scheduler) -> None:
        """Set the gauges from the scheduler's state; called at each scrape."""
        self._running.set(scheduler.running)
        self._waiting.set(scheduler.waiting)
        self._waiting_for_capacity.set(scheduler.waiting)
        self._kv_usage.set(scheduler.kv_cache.usage)

    def step(self, outcome: StepOutcome) -> None:
        """Count a completed step and the tokens it produced."""
        new_tokens = sum(progress.new_tokens for progress in outcome.progress)
        self._step_tokens.observe(outcome.prefill_tokens + new_tokens)
        self._generated.inc(new_tokens)
        self._preemptions.inc(outcome.preemptions)
        self._prefix_queries.inc(outcome.prefix_queries)
        self._prefix_hits.inc(outcome.prefix_hits)
        self._cached_by_source["device"].inc(outcome.prefix_hits)
        for progress in outcome.progress:
            if progress.since_last is None:
                self._first_token.observe(max(0.0, progress.since_arrival))
                self._prompt(progress.prompt_tokens, progress.cached_tokens)
            else:
                self._between_tokens.observe(progress.since_last)
        if outcome.accepted_runs:
            self._drafts.inc(len(outcome.accepted_runs))
            self._draft_tokens.inc(outcome.draft_tokens)
            self._accepted.inc(sum(outcome.accepted_runs))
            for position, counter in enumerate(self._accepted_at):
                counter.inc(sum(1 for run in outcome.accepted_runs if run > position))

    def finished(self, record: RequestRecord, reason: str, n: int, max_tokens: int) -> None:
        """Observe a finished sequence; `reason` is one of FINISHED_REASONS."""
        self._success[reason].inc()
        self._request_prompt.observe(record.prompt_tokens)
        self._request_generation.observe(record.output_tokens)
        self._largest_generation.observe(record.output_tokens)
        self._params_n.observe(n)
        self._params_max_tokens.observe(max_tokens)
        self._end_to_end.observe(max(0.0, record.last_token - record.arrived))
        self._queued.observe(max(0.0, record.scheduled - record.arrived))
        self._inference.observe(record.last_token - record.scheduled)
        self._prefill.observe(record.first_token - record.scheduled)
        self._decode.observe(record.last_token - record.first_token)
        if record.output_tokens > 1:
            self._per_token.observe((record.last_token - record.first_token) / (record.output_tokens - 1))
        self._request_preemptions.observe(record.preemptions)
        self._prefill_computed.observe(record.prompt_tokens - record.cached_tokens)

    def aborted(self) -> None:
        """Count a sequence that was dropped before its end."""
        self._success["abort"].inc()

    def rejection(self, reason: str) -> None:
        """Count a request that a queue limit refused."""
        self._rejections[reason].inc()

    def _prompt(self, tokens: int, cached: int) -> None:
        self._prompt_tokens.inc(tokens)
        self._cached_tokens.inc(cached)
        self._prompt_by_source["local_compute"].inc(tokens - cached)
        self._prompt_by_source["local_cache_hit"].inc(cached)

    def _counter_family(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"vllm:{name}", text, [*self._labels, *labels], registry=self.registry)

    def _counter(self, name: str, text: str) -> Counter:
        return self._counter_family(name, text).labels(**self._labels)

    def _gauge_family(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"vllm:{name}", text, [*self._labels, *labels], registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return self._gauge_family(name, text).labels(**self._labels)

    def _histogram(self, name: str, text: str, buckets: Iterable[float]) -> Histogram:
        family = Histogram(
            f"vllm:{name}", text, [*self._labels], buckets=tuple(buckets), registry=self.registry
        )
        return family.labels(**self._labels)

    def _seconds(self, name: str, text: str) -> Histogram:
        return self._histogram(f"{name}_seconds", text, self._request_seconds)
