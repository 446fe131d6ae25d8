"""Which families of an engine's metrics page are read, by vLLM's names and their older spellings."""

from typing import Final

# The first name that a page knows is read; later ones are those of older engines.
RUNNING: Final = ("vllm:num_requests_running",)
WAITING: Final = ("vllm:num_requests_waiting",)
KV_USAGE: Final = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
PROCESS_START: Final = ("process_start_time_seconds",)
FINISHED: Final = ("vllm:request_success_total", "vllm:request_success")
REJECTED: Final = ("vllm:admission_rejections_total",)
PROMPT_TOKENS: Final = ("vllm:prompt_tokens_total", "vllm:prompt_tokens")
CACHED_TOKENS: Final = ("vllm:prompt_tokens_cached_total", "vllm:prefix_cache_hits_total")
OUTPUT_TOKENS: Final = ("vllm:generation_tokens_total", "vllm:generation_tokens")
INTER_TOKEN: Final = ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
STEPS: Final = ("vllm:iteration_tokens_total",)
FIRST_TOKEN: Final = ("vllm:time_to_first_token_seconds",)
PER_OUTPUT_TOKEN: Final = ("vllm:request_time_per_output_token_seconds",)
CACHE_INFO: Final = "vllm:cache_config_info"
# Of the JAX worker alone, what its start found out about its own answers.
ROW_EXACT: Final = "tierwright_worker_row_exact"
STEP_AGREEMENT: Final = "tierwright_worker_step_agreement"
SPECULATION_INFO: Final = "tierwright_worker_speculation_info"

PLAIN: Final = (
    *RUNNING,
    *WAITING,
    *KV_USAGE,
    *PROCESS_START,
    *FINISHED,
    *REJECTED,
    *PROMPT_TOKENS,
    *CACHED_TOKENS,
    *OUTPUT_TOKENS,
    CACHE_INFO,
    ROW_EXACT,
    STEP_AGREEMENT,
    SPECULATION_INFO,
)
ALL: Final = (
    *PLAIN,
    *(name + end for name in (*INTER_TOKEN, *STEPS) for end in ("_sum", "_count")),
    *(name + end for name in (*FIRST_TOKEN, *PER_OUTPUT_TOKEN) for end in ("_sum", "_count", "_bucket")),
)
