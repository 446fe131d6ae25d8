"""A metrics page of an engine, written line by line so that a test can break any of them."""

TTFT_BOUNDS = ("0.1", "0.5", "1.0", "2.5", "+Inf")
TPOT_BOUNDS = ("0.025", "0.05", "0.1", "+Inf")


def page(
    *,
    running: object = 3,
    waiting: object = 1,
    finished: object = 40,
    first_tokens: tuple[int, ...] = (10, 30, 40, 44, 44),
    per_output: tuple[int, ...] = (20, 35, 40, 40),
    prompt_tokens: object = 44_000,
    cached_tokens: object = 4_000,
    output_tokens: object = 8_000,
    inter_token: tuple[object, object] = (160.0, 7_900),
    steps: tuple[object, object] = (48_000, 2_000),
    process_start: object = 1_700_000_000.5,
    labels: str = 'engine="0",model_name="m"',
) -> str:
    """The lines of one engine; the counts of a histogram are cumulative."""
    lines = [
        "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.",
        "# TYPE process_start_time_seconds gauge",
        f"process_start_time_seconds {process_start}",
        f"vllm:num_requests_running{{{labels}}} {running}",
        f"vllm:num_requests_waiting{{{labels}}} {waiting}",
        f"vllm:kv_cache_usage_perc{{{labels}}} 0.25",
        f'vllm:request_success_total{{{labels},finished_reason="stop"}} {finished}',
        f'vllm:request_success_total{{{labels},finished_reason="abort"}} 0',
        f"vllm:prompt_tokens_total{{{labels}}} {prompt_tokens}",
        f"vllm:prompt_tokens_cached_total{{{labels}}} {cached_tokens}",
        f"vllm:generation_tokens_total{{{labels}}} {output_tokens}",
        f"vllm:inter_token_latency_seconds_sum{{{labels}}} {inter_token[0]}",
        f"vllm:inter_token_latency_seconds_count{{{labels}}} {inter_token[1]}",
        f"vllm:iteration_tokens_total_sum{{{labels}}} {steps[0]}",
        f"vllm:iteration_tokens_total_count{{{labels}}} {steps[1]}",
        *_histogram("vllm:time_to_first_token_seconds", labels, TTFT_BOUNDS, first_tokens),
        *_histogram("vllm:request_time_per_output_token_seconds", labels, TPOT_BOUNDS, per_output),
        f'vllm:cache_config_info{{{labels},num_gpu_blocks="100",block_size="16"}} 1.0',
    ]
    return "\n".join(lines) + "\n"


def _histogram(name: str, labels: str, bounds: tuple[str, ...], counts: tuple[int, ...]) -> list[str]:
    buckets = [
        f'{name}_bucket{{{labels},le="{bound}"}} {count}' for bound, count in zip(bounds, counts, strict=True)
    ]
    return [*buckets, f"{name}_count{{{labels}}} {counts[-1]}", f"{name}_sum{{{labels}}} {counts[-1] * 0.3}"]
