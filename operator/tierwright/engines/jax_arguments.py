"""Decides the command line of the project's JAX worker: one argument per typed field, or the refusal of the field."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tierwright.api.engine import EngineSpec, Speculation, SpeculationMethod
from tierwright.api.hardware import Accelerator
from tierwright.api.scalars import duration_seconds
from tierwright.api.tier import TierSpec
from tierwright.engines.engine import CACHE_PATH, HTTP_PORT, LATENCY_BUCKETS, EngineRequest
from tierwright.hardware.refusal import RefusedError, invalid, unsupported

WEIGHTS_CACHE: Final = f"{CACHE_PATH}/weights"
COMPILE_CACHE: Final = f"{CACHE_PATH}/jax"
PROGRAM_EXTRAS: Final = ("--kernels",)
"""Arguments that no typed field sets and that programs depend on; from extraArgs they reach the compile run as well."""
_PLATFORMS: Final[Mapping[Accelerator, str]] = {
    Accelerator.CPU: "cpu",
    Accelerator.NVIDIA: "cuda",
    Accelerator.NEURON: "neuron",
}
_DTYPES: Final = ("float32", "bfloat16")
_CACHE_DTYPES: Final = ("bfloat16", "int8")
_DEVICE_DTYPE: Final = "bfloat16"
# On a CPU the worker computes in float32: there its results do not depend on the speed. Devices are made for bfloat16.
_METHODS: Final[Mapping[SpeculationMethod, str]] = {
    SpeculationMethod.N_GRAM: "ngram",
    SpeculationMethod.DRAFT_MODEL: "draft",
}


def serve_arguments(spec: TierSpec, request: EngineRequest) -> tuple[str, ...]:
    """The arguments of a server; the user's own come last.

    Raises:
        RefusedError: a field that the worker cannot honour.
    """
    _refuse_what_the_worker_lacks(spec)
    engine = spec.engine
    args = ["serve", *_model(spec, request)]
    args += ["--served-model-name", spec.model.name, "--port", str(HTTP_PORT)]
    args += ["--shutdown-timeout", str(request.drain_seconds)]
    args += LATENCY_BUCKETS
    if engine.batching.max_batched_tokens is not None:
        args += ["--max-num-batched-tokens", str(engine.batching.max_batched_tokens)]
    if engine.speculation is not None and engine.speculation.disable_above_batch_size is not None:
        args += ["--speculation-disable-above-batch", str(engine.speculation.disable_above_batch_size)]
    if engine.prompt_cache.ttl is not None:
        args += ["--prompt-cache-ttl", f"{duration_seconds(engine.prompt_cache.ttl):g}"]
    return (*args, *engine.extra_args)


def compile_arguments(spec: TierSpec, request: EngineRequest) -> tuple[str, ...]:
    """The arguments of a run that fills the compile cache and ends: all that programs depend on, and nothing else.

    Raises:
        RefusedError: a field that the worker cannot honour.
    """
    _refuse_what_the_worker_lacks(spec)
    return ("compile", *_model(spec, request), *_program_extras(spec.engine.extra_args))


def _model(spec: TierSpec, request: EngineRequest) -> list[str]:
    """What decides the programs: model, shapes, number formats, parallelism."""
    engine = spec.engine
    args = ["--model", request.model_path, "--weights-cache", WEIGHTS_CACHE, "--compile-cache", COMPILE_CACHE]
    args += ["--platform", _PLATFORMS[spec.hardware.accelerator]]
    args += _number_formats(spec)
    if engine.tensor_parallel > 1:
        args += ["--tensor-parallel-size", str(engine.tensor_parallel)]
    if engine.max_model_len is not None:
        args += ["--max-model-len", str(engine.max_model_len)]
    if engine.batching.max_sequences is not None:
        args += ["--max-num-seqs", str(engine.batching.max_sequences)]
    if engine.jax is not None:
        for name, buckets in (
            ("length", engine.jax.length_buckets),
            ("prefill", engine.jax.prefill_buckets),
        ):
            if buckets:
                # In order: a merge of two writers keeps the members of a set, and not their order.
                args += [f"--{name}-buckets", ",".join(map(str, sorted(buckets)))]
    args += _prompt_cache(engine)
    if engine.speculation is not None:
        args += _speculation(engine.speculation, request.draft_path)
    return args


def _number_formats(spec: TierSpec) -> list[str]:
    engine = spec.engine
    wanted = None if engine.dtype == "auto" else engine.dtype
    if wanted is not None and wanted not in _DTYPES:
        raise _lacks("dtype", f"the JAX worker does not compute in {wanted}; use float32 or bfloat16")
    default = None if spec.hardware.accelerator is Accelerator.CPU else _DEVICE_DTYPE
    dtype = wanted or default
    if engine.quantization is not None:
        if engine.quantization != "int8":
            raise _lacks("quantization", "the JAX worker quantizes weights to int8 only; use int8")
        if wanted is not None:
            raise invalid(
                "spec.engine.dtype",
                "with quantization: int8 the JAX worker chooses the format that it computes in; remove dtype",
            )
        dtype = "int8"
    args = [] if dtype is None else ["--dtype", dtype]
    cache = engine.kv_cache.dtype
    if cache is None or cache == "auto":
        return args
    if cache not in _CACHE_DTYPES:
        raise _lacks(
            "kvCache.dtype", f"the JAX worker does not keep its cache as {cache}; use auto, bfloat16 or int8"
        )
    return [*args, "--kv-cache-dtype", cache]


def _prompt_cache(engine: EngineSpec) -> list[str]:
    """Pages of the prompt cache are the worker's blocks; without a prompt cache there are none."""
    size = engine.kv_cache.block_size
    if engine.prompt_cache.enabled:
        return [] if size is None else ["--prompt-cache-page", str(size)]
    for field, value in (("kvCache.blockSize", size), ("promptCache.ttl", engine.prompt_cache.ttl)):
        if value is not None:
            raise invalid(
                f"spec.engine.{field}",
                "the JAX worker has this for cached prompts only; remove it, or set promptCache.enabled: true",
            )
    return ["--prompt-cache-page", "0"]


def _speculation(speculation: Speculation, draft_path: str | None) -> list[str]:
    method = _METHODS.get(speculation.method)
    if method is None:
        raise _lacks(
            "speculation.method",
            f"the JAX worker does not speculate by {speculation.method}; use NGram or DraftModel",
        )
    args = ["--speculative-tokens", str(speculation.tokens), "--speculation-method", method]
    if speculation.method is not SpeculationMethod.DRAFT_MODEL:
        return args
    if draft_path is None:
        raise invalid(
            "spec.engine.speculation.draftModel",
            "method DraftModel needs draftModel.source: where its weights come from",
        )
    return [*args, "--speculative-model", draft_path]


def _refuse_what_the_worker_lacks(spec: TierSpec) -> None:
    engine = spec.engine
    if engine.prompt_cache.scope == "Tenant":
        raise _lacks(
            "promptCache.scope",
            "a prompt cache per tenant needs the gateway, which is not built yet; use scope: Tier",
        )
    for field, ranks in (
        ("pipelineParallel", engine.pipeline_parallel),
        ("dataParallel", engine.data_parallel),
    ):
        if ranks > 1:
            raise _lacks(
                field, f"the JAX worker does not split a model this way yet; use {field} 1, and more replicas"
            )
    if engine.tensor_parallel > 1 and spec.hardware.accelerator is Accelerator.CPU:
        raise _lacks(
            "tensorParallel",
            "the JAX worker takes all cores of a CPU as one device; use tensorParallel 1, and more cores",
        )
    if engine.batching.chunked_prefill is False:
        raise _lacks(
            "batching.chunkedPrefill", "the JAX worker always reads prompts in chunks; remove chunkedPrefill"
        )
    if engine.kv_cache.host_offload is not None:
        raise _lacks(
            "kvCache.hostOffload",
            "the JAX worker counts the prompts that it keeps in host memory in pages; remove hostOffload and use "
            "extraArgs with --prompt-cache-host-pages",
        )
    if engine.kv_cache.memory_fraction is not None and spec.hardware.accelerator is Accelerator.CPU:
        raise _lacks(
            "kvCache.memoryFraction",
            "the JAX worker takes on cpu what its slots and buckets need; remove memoryFraction",
        )


def _program_extras(extra_args: Sequence[str]) -> Iterator[str]:
    """Those of the user's own arguments that programs depend on, each with its value."""
    takes_value = False
    for argument in extra_args:
        name, equals, _ = argument.partition("=")
        if takes_value or name in PROGRAM_EXTRAS:
            yield argument
        takes_value = name in PROGRAM_EXTRAS and not equals


def _lacks(field: str, message: str) -> RefusedError:
    return unsupported(f"spec.engine.{field}", message)
