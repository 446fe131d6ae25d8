"""Decides the command line of vLLM and of servers that understand it: one argument per typed field."""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from tierwright.api.engine import EngineSpec, Speculation, SpeculationMethod
from tierwright.api.scalars import quantity_value
from tierwright.engines.engine import HTTP_PORT, LATENCY_BUCKETS, EngineRequest
from tierwright.hardware.refusal import invalid, unsupported

_KV_DTYPES: Final[Mapping[str, str]] = {"int8": "int8_per_token_head"}
"""Number formats of the cache that vLLM calls by another name."""
_METHODS: Final[Mapping[SpeculationMethod, str]] = {
    SpeculationMethod.N_GRAM: "ngram",
    SpeculationMethod.DRAFT_MODEL: "draft_model",
    SpeculationMethod.EAGLE3: "eagle3",
    SpeculationMethod.MTP: "mtp",
}
_METHODS_WITH_DRAFT: Final = (SpeculationMethod.DRAFT_MODEL, SpeculationMethod.EAGLE3)
_LARGEST_BATCH: Final = 4096
_GIB: Final = Decimal(2**30)


def vllm_arguments(engine: EngineSpec, served_name: str, request: EngineRequest) -> tuple[str, ...]:
    """The arguments after ``vllm serve``; the user's own come last.

    Raises:
        RefusedError: a prompt cache per tenant, or a speculation method without its draft model.
    """
    if engine.prompt_cache.scope == "Tenant":
        raise unsupported(
            "spec.engine.promptCache.scope",
            "a prompt cache per tenant needs the gateway, which is not built yet; use scope: Tier",
        )
    args = [request.model_path, "--served-model-name", served_name, "--port", str(HTTP_PORT)]
    args += ["--shutdown-timeout", str(request.drain_seconds)]
    args += LATENCY_BUCKETS
    args += _parallelism(engine)
    args += _model(engine)
    args += _batching(engine)
    args += _kv_cache(engine)
    args.append(_switch("enable-prefix-caching", engine.prompt_cache.enabled))
    if engine.speculation is not None:
        config = _speculation(engine, engine.speculation, request.draft_path)
        args += ["--speculative-config", json.dumps(config, separators=(",", ":"), sort_keys=True)]
    return (*args, *engine.extra_args)


def _parallelism(engine: EngineSpec) -> list[str]:
    args: list[str] = []
    for name, ranks in (
        ("tensor", engine.tensor_parallel),
        ("pipeline", engine.pipeline_parallel),
        ("data", engine.data_parallel),
    ):
        if ranks > 1:
            args += [f"--{name}-parallel-size", str(ranks)]
    return args


def _model(engine: EngineSpec) -> list[str]:
    args: list[str] = []
    if engine.max_model_len is not None:
        args += ["--max-model-len", str(engine.max_model_len)]
    if engine.dtype is not None:
        args += ["--dtype", engine.dtype]
    if engine.quantization is not None:
        args += ["--quantization", engine.quantization]
    return args


def _batching(engine: EngineSpec) -> list[str]:
    batching = engine.batching
    args: list[str] = []
    if batching.max_sequences is not None:
        args += ["--max-num-seqs", str(batching.max_sequences)]
    if batching.max_batched_tokens is not None:
        args += ["--max-num-batched-tokens", str(batching.max_batched_tokens)]
    if batching.chunked_prefill is not None:
        args.append(_switch("enable-chunked-prefill", batching.chunked_prefill))
    return args


def _kv_cache(engine: EngineSpec) -> list[str]:
    cache = engine.kv_cache
    args: list[str] = []
    if cache.dtype is not None:
        args += ["--kv-cache-dtype", _KV_DTYPES.get(cache.dtype, cache.dtype)]
    if cache.memory_fraction is not None:
        args += ["--gpu-memory-utilization", cache.memory_fraction]
    if cache.block_size is not None:
        args += ["--block-size", str(cache.block_size)]
    if cache.host_offload is not None:
        gibibytes = (quantity_value(cache.host_offload) / _GIB).quantize(Decimal("0.001"))
        args += ["--kv-offloading-size", f"{gibibytes.normalize():f}"]
    return args


def _switch(name: str, on: bool) -> str:
    return f"--{name}" if on else f"--no-{name}"


def _speculation(engine: EngineSpec, speculation: Speculation, draft_path: str | None) -> dict[str, Any]:
    config: dict[str, Any] = {
        "method": _METHODS[speculation.method],
        "num_speculative_tokens": speculation.tokens,
    }
    if speculation.method in _METHODS_WITH_DRAFT:
        if draft_path is None:
            raise invalid(
                "spec.engine.speculation.draftModel",
                f"method {speculation.method} needs draftModel.source: where its weights come from",
            )
        config["model"] = draft_path
    threshold = speculation.disable_above_batch_size
    largest = engine.batching.max_sequences or _LARGEST_BATCH
    if threshold is not None and threshold < largest:
        # The former disable_by_batch_size is gone; a table of (from, to, tokens) with 0 tokens replaces it.
        config["num_speculative_tokens_per_batch_size"] = [
            [1, threshold, speculation.tokens],
            [threshold + 1, largest, 0],
        ]
    return config
