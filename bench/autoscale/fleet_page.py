"""One fleet's counters as a vLLM engine would publish them: what a policy may see, and no more."""

from tierwright.planning.counters import TPOT_BOUNDS, TTFT_BOUNDS, Counters


def page(counters: Counters, kv_blocks: int, block_size: int, *, steps: bool = True) -> str:
    """The page of a fleet with so many blocks of KV cache, each of so many tokens; without `steps` if nobody counted them."""
    labels = 'engine="0",model_name="m"'
    tokens = counters.prompt_tokens - counters.cached_tokens + counters.output_tokens
    lines = [
        f"vllm:num_requests_running{{{labels}}} {counters.running}",
        f"vllm:num_requests_waiting{{{labels}}} {counters.waiting}",
        f"vllm:kv_cache_usage_perc{{{labels}}} {counters.kv_usage}",
        f'vllm:request_success_total{{{labels},finished_reason="stop"}} {counters.finished}',
        f"vllm:prompt_tokens_total{{{labels}}} {counters.prompt_tokens}",
        f"vllm:prompt_tokens_cached_total{{{labels}}} {counters.cached_tokens}",
        f"vllm:generation_tokens_total{{{labels}}} {counters.output_tokens}",
        f"vllm:inter_token_latency_seconds_sum{{{labels}}} {counters.inter_token_seconds}",
        f"vllm:inter_token_latency_seconds_count{{{labels}}} {counters.inter_tokens}",
        f'vllm:cache_config_info{{{labels},num_gpu_blocks="{kv_blocks}",block_size="{block_size}"}} 1.0',
    ]
    if steps:
        lines += [
            f"vllm:iteration_tokens_total_sum{{{labels}}} {tokens}",
            f"vllm:iteration_tokens_total_count{{{labels}}} {counters.steps}",
        ]
    for name, bounds, counts, total in (
        ("vllm:time_to_first_token_seconds", TTFT_BOUNDS, counters.first_token, counters.first_token_seconds),
        (
            "vllm:request_time_per_output_token_seconds",
            TPOT_BOUNDS,
            counters.per_token,
            counters.per_token_seconds,
        ),
    ):
        reached = 0
        for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
            reached += count
            lines.append(f'{name}_bucket{{{labels},le="{bound}"}} {reached}')
        lines += [f"{name}_count{{{labels}}} {reached}", f"{name}_sum{{{labels}}} {total}"]
    return "\n".join(lines) + "\n"
