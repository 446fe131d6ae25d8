"""One fleet's counters as a vLLM engine would publish them: what a policy may see, and no more."""

from bisect import bisect_left
from dataclasses import dataclass, field

TTFT_BOUNDS = (
    0.01,
    0.05,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    1.5,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
    80.0,
    160.0,
    640.0,
)
TPOT_BOUNDS = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5, 5.0)


@dataclass(slots=True)
class Counters:
    """Counters since the start; the bounds hold the objectives of the benchmark, as the operator lays them."""

    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    finished: int = 0
    prompt_tokens: float = 0.0
    cached_tokens: float = 0.0
    output_tokens: float = 0.0
    inter_token_seconds: float = 0.0
    inter_tokens: float = 0.0
    steps: float = 0.0
    first_token: list[int] = field(default_factory=lambda: [0] * (len(TTFT_BOUNDS) + 1))
    first_token_seconds: float = 0.0
    per_token: list[int] = field(default_factory=lambda: [0] * (len(TPOT_BOUNDS) + 1))
    per_token_seconds: float = 0.0

    def first(self, seconds: float) -> None:
        """A first token came after so many seconds."""
        self.first_token[bisect_left(TTFT_BOUNDS, seconds)] += 1
        self.first_token_seconds += seconds

    def ended(self, per_token: float | None) -> None:
        """A request ended; None: it had one token."""
        self.finished += 1
        if per_token is not None:
            self.per_token[bisect_left(TPOT_BOUNDS, per_token)] += 1
            self.per_token_seconds += per_token

    def page(self, kv_blocks: int, block_size: int) -> str:
        """The page."""
        labels = 'engine="0",model_name="m"'
        tokens = self.prompt_tokens - self.cached_tokens + self.output_tokens
        lines = [
            f"vllm:num_requests_running{{{labels}}} {self.running}",
            f"vllm:num_requests_waiting{{{labels}}} {self.waiting}",
            f"vllm:kv_cache_usage_perc{{{labels}}} {self.kv_usage}",
            f'vllm:request_success_total{{{labels},finished_reason="stop"}} {self.finished}',
            f"vllm:prompt_tokens_total{{{labels}}} {self.prompt_tokens}",
            f"vllm:prompt_tokens_cached_total{{{labels}}} {self.cached_tokens}",
            f"vllm:generation_tokens_total{{{labels}}} {self.output_tokens}",
            f"vllm:inter_token_latency_seconds_sum{{{labels}}} {self.inter_token_seconds}",
            f"vllm:inter_token_latency_seconds_count{{{labels}}} {self.inter_tokens}",
            f"vllm:iteration_tokens_total_sum{{{labels}}} {tokens}",
            f"vllm:iteration_tokens_total_count{{{labels}}} {self.steps}",
            f'vllm:cache_config_info{{{labels},num_gpu_blocks="{kv_blocks}",block_size="{block_size}"}} 1.0',
        ]
        for name, bounds, counts, total in (
            ("vllm:time_to_first_token_seconds", TTFT_BOUNDS, self.first_token, self.first_token_seconds),
            (
                "vllm:request_time_per_output_token_seconds",
                TPOT_BOUNDS,
                self.per_token,
                self.per_token_seconds,
            ),
        ):
            reached = 0
            for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
                reached += count
                lines.append(f'{name}_bucket{{{labels},le="{bound}"}} {reached}')
            lines += [f"{name}_count{{{labels}}} {reached}", f"{name}_sum{{{labels}}} {total}"]
        return "\n".join(lines) + "\n"
