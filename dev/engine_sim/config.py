"""Decides what engine a command line and the simulator's settings describe, or why vLLM would not start with them."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dev.engine_sim.buckets import BucketsError, parse_buckets
from dev.engine_sim.cli import argument_table, given_arguments
from dev.engine_sim.settings import GIB, Settings
from dev.engine_sim.speculation import Speculation, SpeculationError, parse_speculation
from dev.engine_sim.step_time import StepTimeModel
from dev.engine_sim.steps import Limits

VLLM_VERSION = "0.32.0"
# vLLM's defaults depend on the device: these are for at least 70 GiB, the others for less.
LARGE_DEVICE_BYTES = 70 * GIB
LARGE_DEVICE_DEFAULTS = (1024, 8192)
SMALL_DEVICE_DEFAULTS = (256, 2048)
GPU_BLOCK_SIZE = 16
DEFAULT_UTILIZATION = 0.92
# Bytes of a cached value against 16 bits, by how the dtype's name begins.
KV_DTYPE_SHARES = {
    "fp8": 0.5,
    "int8": 0.5,
    "int4": 0.25,
    "nvfp4": 0.25,
    "turboquant_3": 0.2,
    "turboquant": 0.3,
}
KV_DTYPE_SHARES |= {"ultraquant": 0.25}
WITH_EFFECT = frozenset(
    {
        "model",
        "served_model_name",
        "host",
        "port",
        "api_key",
        "max_model_len",
        "max_num_seqs",
        "max_num_active_seqs",
        "max_num_batched_tokens",
        "max_num_queued_reqs",
        "max_num_queued_tokens",
        "enable_chunked_prefill",
        "long_prefill_token_threshold",
        "block_size",
        "num_gpu_blocks_override",
        "kv_cache_memory_bytes",
        "kv_cache_dtype",
        "gpu_memory_utilization",
        "tensor_parallel_size",
        "enable_prefix_caching",
        "speculative_config",
        "spec_method",
        "spec_model",
        "spec_tokens",
        "shutdown_timeout",
        "seed",
        "enable_force_include_usage",
        "enable_prompt_tokens_details",
        "enable_server_load_tracking",
        "enable_request_id_headers",
        "custom_histogram_buckets",
    }
)


class ConfigError(ValueError):
    """A combination of arguments with which vLLM parses its command line and then fails to start."""


@dataclass(frozen=True)
class EngineConfig:
    """One engine as the simulator runs it; `without_effect` names the given arguments that change nothing here."""

    model: str
    served_names: tuple[str, ...]
    host: str
    port: int
    api_keys: tuple[str, ...]
    max_model_len: int
    limits: Limits
    block_size: int
    total_blocks: int
    kv_cache_dtype: str
    kv_cache_memory_bytes: int | None
    gpu_memory_utilization: float
    prefix_caching: bool
    user_block_size: bool
    speculation: Speculation | None
    step_time: StepTimeModel
    shutdown_timeout: float
    seed: int
    force_include_usage: bool
    prompt_tokens_details: bool
    load_tracking: bool
    request_id_headers: bool
    histogram_buckets: Mapping[str, tuple[float, ...]]
    """By family; families that are absent have vLLM's own."""
    without_effect: tuple[str, ...]

    @property
    def kv_cache_tokens(self) -> int:
        """Tokens that the whole KV cache holds."""
        return self.total_blocks * self.block_size


def build_config(
    arguments: argparse.Namespace, settings: Settings, api_key: str | None = None
) -> EngineConfig:
    """The engine that `arguments` describe; `api_key` is the environment's VLLM_API_KEY. ConfigError says what is wrong."""
    large = settings.device_memory_bytes >= LARGE_DEVICE_BYTES
    default_sequences, default_tokens = LARGE_DEVICE_DEFAULTS if large else SMALL_DEVICE_DEFAULTS
    speculation = _speculation(arguments)
    max_sequences = _positive(arguments, "max_num_seqs", default_sequences)
    max_tokens = _positive(arguments, "max_num_batched_tokens", max(default_tokens, max_sequences))
    if max_tokens < max_sequences:
        raise ConfigError(
            f"max_num_batched_tokens ({max_tokens}) is smaller than max_num_seqs ({max_sequences})"
        )
    active = _positive(arguments, "max_num_active_seqs", max_sequences)
    if active > max_sequences:
        raise ConfigError(f"max_num_active_seqs ({active}) is larger than max_num_seqs ({max_sequences})")
    block_size = _positive(arguments, "block_size", GPU_BLOCK_SIZE)
    dtype = arguments.kv_cache_dtype or "auto"
    total_blocks = _kv_blocks(arguments, settings, block_size, dtype)
    max_model_len = _model_len(arguments, settings, total_blocks * block_size)
    chunked = arguments.enable_chunked_prefill is not False
    if not chunked and max_tokens < max_model_len:
        raise ConfigError(
            f"max_num_batched_tokens ({max_tokens}) is smaller than max_model_len ({max_model_len}): "
            "without chunked prefill the longest prompts could never run"
        )
    threshold = arguments.long_prefill_token_threshold or 0
    return EngineConfig(
        model=arguments.model,
        served_names=tuple(arguments.served_model_name or [arguments.model]),
        host=arguments.host or "0.0.0.0",  # noqa: S104  # vLLM's default: every interface of the pod
        port=8000 if arguments.port is None else arguments.port,
        api_keys=tuple(arguments.api_key or ([api_key] if api_key else [])),
        max_model_len=max_model_len,
        limits=Limits(
            max_sequences=active,
            max_batched_tokens=max_tokens,
            chunked_prefill=chunked,
            long_prefill_threshold=threshold if chunked else 0,
            max_queued_requests=_optional_positive(arguments, "max_num_queued_reqs"),
            max_queued_tokens=_optional_positive(arguments, "max_num_queued_tokens"),
        ),
        block_size=block_size,
        total_blocks=total_blocks,
        kv_cache_dtype=dtype,
        kv_cache_memory_bytes=arguments.kv_cache_memory_bytes,
        gpu_memory_utilization=_utilization(arguments),
        prefix_caching=arguments.enable_prefix_caching is not False,
        user_block_size=arguments.block_size is not None,
        speculation=speculation,
        step_time=_step_time(settings, speculation),
        shutdown_timeout=max(0, arguments.shutdown_timeout or 0),
        seed=arguments.seed or 0,
        force_include_usage=bool(arguments.enable_force_include_usage),
        prompt_tokens_details=bool(arguments.enable_prompt_tokens_details),
        load_tracking=bool(arguments.enable_server_load_tracking),
        request_id_headers=bool(arguments.enable_request_id_headers),
        histogram_buckets=_histogram_buckets(arguments),
        without_effect=tuple(name for name in given_arguments(arguments) if name not in WITH_EFFECT),
    )


def _histogram_buckets(arguments: argparse.Namespace) -> Mapping[str, tuple[float, ...]]:
    try:
        return parse_buckets(arguments.custom_histogram_buckets)
    except BucketsError as error:
        raise ConfigError(str(error)) from None


def _step_time(settings: Settings, speculation: Speculation | None) -> StepTimeModel:
    drafting = settings.step_per_draft_token_ms if speculation and speculation.has_draft_model else 0.0
    return StepTimeModel(
        base=settings.step_base_ms / 1000,
        per_sequence=settings.step_per_sequence_ms / 1000,
        per_context_token=settings.step_per_context_token_ms / 1000,
        per_prefill_token=settings.step_per_prefill_token_ms / 1000,
        per_draft_token=drafting / 1000,
    )


def _speculation(arguments: argparse.Namespace) -> Speculation | None:
    given = arguments.speculative_config
    if given is not None and not isinstance(given, dict):
        raise ConfigError("speculative_config: must be a JSON object")
    config: dict[str, Any] = dict(given or {})
    short_forms = {"method": arguments.spec_method, "model": arguments.spec_model}
    short_forms |= {"num_speculative_tokens": arguments.spec_tokens}
    for key, value in short_forms.items():
        if value is None or value == "None":
            continue
        if key in config:
            raise ConfigError(f"speculative_config.{key}: given twice, in the JSON and by its short form")
        config[key] = value
    try:
        return parse_speculation(config, speculative_methods())
    except SpeculationError as error:
        raise ConfigError(str(error)) from None


def speculative_methods() -> frozenset[str]:
    """Methods that this version of vLLM knows, from the argument table."""
    choices = next(entry["choices"] for entry in argument_table() if "--spec-method" in entry["names"])
    return frozenset(choices) - {"None"}


def _kv_blocks(arguments: argparse.Namespace, settings: Settings, block_size: int, dtype: str) -> int:
    if arguments.num_gpu_blocks_override is not None:
        return _positive(arguments, "num_gpu_blocks_override", 1)
    ranks = _positive(arguments, "tensor_parallel_size", 1)
    room: float
    if arguments.kv_cache_memory_bytes is not None:
        room = _positive(arguments, "kv_cache_memory_bytes", 1)
    else:
        room = settings.device_memory_bytes * _utilization(arguments) - settings.weights_bytes / ranks
    share = next((part for name, part in KV_DTYPE_SHARES.items() if dtype.startswith(name)), 1.0)
    blocks = int(room / (settings.kv_bytes_per_token * share / ranks) / block_size)
    if blocks < 1:
        raise ConfigError(
            "No available memory for the cache blocks: raise gpu_memory_utilization, kv_cache_memory_bytes or "
            f"tensor_parallel_size (weights take {settings.weights_bytes / ranks / GIB:.1f} GiB of "
            f"{settings.device_memory_bytes / GIB:.1f} GiB on each device)"
        )
    return blocks


def _model_len(arguments: argparse.Namespace, settings: Settings, kv_cache_tokens: int) -> int:
    wanted = arguments.max_model_len
    if wanted == -1:
        return min(settings.model_max_len, kv_cache_tokens)
    length: int = settings.model_max_len if wanted is None else wanted
    if length > settings.model_max_len:
        raise ConfigError(
            f"max_model_len ({length}) is greater than the model's own context length ({settings.model_max_len}; "
            "ENGINE_SIM_MODEL_MAX_LEN sets the simulated one)"
        )
    if length > kv_cache_tokens:
        raise ConfigError(
            f"the KV cache holds {kv_cache_tokens} tokens, less than one request of max_model_len ({length}): "
            "raise gpu_memory_utilization or kv_cache_memory_bytes, or lower max_model_len"
        )
    return length


def _utilization(arguments: argparse.Namespace) -> float:
    value = (
        DEFAULT_UTILIZATION if arguments.gpu_memory_utilization is None else arguments.gpu_memory_utilization
    )
    if not 0 < value <= 1:
        raise ConfigError(f"gpu_memory_utilization: {value} must lie above 0 and not above 1")
    return float(value)


def _positive(arguments: argparse.Namespace, name: str, default: int) -> int:
    value = getattr(arguments, name)
    if value is None:
        return default
    if value < 1:
        raise ConfigError(f"{name}: {value} must be at least 1")
    return int(value)


def _optional_positive(arguments: argparse.Namespace, name: str) -> int | None:
    return None if getattr(arguments, name) is None else _positive(arguments, name, 1)
