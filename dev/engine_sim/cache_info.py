"""Says what vllm:cache_config_info tells about the KV cache, all as label values."""

from dev.engine_sim.config import EngineConfig

UNSET = (
    "cache_hit_alignment_tokens",
    "hash_block_size",
    "kv_cache_layout",
    "kv_offloading_size",
    "mamba_block_size",
    "mamba_page_size_padded",
    "num_cpu_blocks",
    "num_gpu_blocks_override",
    "prefix_match_unit",
    "skip_page_size_padded",
    "sliding_window",
)
OFF = (
    "enable_mamba_shared_prefix_checkpoint",
    "is_attention_free",
    "kv_sharing_fast_prefill",
    "use_kda_recoverssm",
    "use_replayssm",
)


def cache_config_labels(config: EngineConfig) -> dict[str, str]:
    """The labels of vllm:cache_config_info; what the simulator has no notion of keeps vLLM's default."""
    concurrency = config.kv_cache_tokens / config.max_model_len
    values: dict[str, object] = {
        "block_size": config.block_size,
        "effective_attention_block_size": config.block_size,
        "_block_size_resolved": True,
        "user_specified_block_size": config.user_block_size,
        "cache_dtype": config.kv_cache_dtype,
        "enable_prefix_caching": config.prefix_caching,
        "prefix_caching_hash_algo": "sha256",
        "gpu_memory_utilization": config.gpu_memory_utilization,
        "kv_cache_memory_bytes": config.kv_cache_memory_bytes,
        "kv_cache_size_tokens": config.kv_cache_tokens,
        "kv_cache_max_concurrency": f"{concurrency:.2f}",
        "num_gpu_blocks": config.total_blocks,
        "kv_offloading_backend": "native",
        "mamba_cache_dtype": "auto",
        "mamba_cache_mode": "none",
        "mamba_ssm_cache_dtype": "float32",
        "kv_cache_dtype_skip_layers": "[]",
        "prefix_cache_retention_interval": 0,
        "replayssm_buffer_len": 16,
        "swa_bounded_replay": True,
    }
    values |= dict.fromkeys(UNSET) | dict.fromkeys(OFF, False)
    return {name: str(value) for name, value in values.items()}
