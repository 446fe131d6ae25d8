"""Rules on the engine: what it cannot honour on its device, and settings that contradict each other."""

from collections.abc import Callable
from typing import Final

from tierwright.api.engine import EngineSpec, EngineType, PromptCache, Speculation, SpeculationMethod
from tierwright.api.hardware import Accelerator
from tierwright.api.rules.rule import AnyRule, Rule, quantity
from tierwright.api.scalars import duration_seconds, quantity_value
from tierwright.api.tier import TierSpec

# Left to a condition of the tier, because a later release makes them legal without a change of the API: what the JAX
# worker does not do yet, vllm on neuron, hosts above 1, MIG slices, promptCache.scope Tenant (needs the gateway to salt
# each request).

_WITH_DRAFT: Final = (SpeculationMethod.DRAFT_MODEL, SpeculationMethod.EAGLE3)
_CPU_KV_DTYPES: Final = ("auto", "fp8")
_CPU_BLOCK_STEP: Final = 32
_VLLM_ON_CPU_CEL: Final = "self.engine.type == 'vllm' && self.hardware.accelerator == 'cpu'"
_KV: Final = "self.engine.kvCache"


def _has_kv_cel(field: str) -> str:
    return f"has({_KV}) && has({_KV}.{field})"


def _vllm_on_cpu(spec: TierSpec) -> bool:
    return spec.engine.type is EngineType.VLLM and spec.hardware.accelerator is Accelerator.CPU


def _draft_given(speculation: Speculation) -> bool:
    return speculation.method not in _WITH_DRAFT or speculation.draft_model is not None


def _draft_used(speculation: Speculation) -> bool:
    return speculation.method in _WITH_DRAFT or speculation.draft_model is None


def _threshold_is_kept(engine: EngineSpec) -> bool:
    return (
        engine.type is not EngineType.VLLM
        or engine.data_parallel == 1
        or engine.speculation is None
        or engine.speculation.disable_above_batch_size is None
    )


def _ttl_positive(cache: PromptCache) -> bool:
    return cache.ttl is None or duration_seconds(cache.ttl) > 0


def _prompts_fit_one_step(engine: EngineSpec) -> bool:
    tokens = engine.batching.max_batched_tokens
    return (
        engine.batching.chunked_prefill is not False
        or tokens is None
        or engine.max_model_len is None
        or tokens >= engine.max_model_len
    )


def _sequences_fit_one_step(engine: EngineSpec) -> bool:
    tokens, sequences = engine.batching.max_batched_tokens, engine.batching.max_sequences
    return tokens is None or sequences is None or tokens >= sequences


def _cpu_kv_dtype(spec: TierSpec) -> bool:
    dtype = spec.engine.kv_cache.dtype
    return not _vllm_on_cpu(spec) or dtype is None or dtype in _CPU_KV_DTYPES


def _cpu_block_size(spec: TierSpec) -> bool:
    size = spec.engine.kv_cache.block_size
    return not _vllm_on_cpu(spec) or size is None or size % _CPU_BLOCK_STEP == 0


def _offload_has_two_memories(spec: TierSpec) -> bool:
    return spec.hardware.accelerator is Accelerator.NVIDIA or spec.engine.kv_cache.host_offload is None


def _fraction_of_a_gpu(spec: TierSpec) -> bool:
    return spec.hardware.accelerator is not Accelerator.NEURON or spec.engine.kv_cache.memory_fraction is None


def _offload_fits_memory(spec: TierSpec) -> bool:
    offload, memory = spec.engine.kv_cache.host_offload, spec.hardware.resources.memory
    return offload is None or memory is None or quantity_value(offload) < quantity_value(memory)


def _fraction_above_zero(engine: EngineSpec) -> bool:
    fraction = engine.kv_cache.memory_fraction
    return fraction is None or float(fraction) > 0


def _offload_above_zero(engine: EngineSpec) -> bool:
    offload = engine.kv_cache.host_offload
    return offload is None or quantity_value(offload) > 0


def _engine(field: str, cel: str, message: str, holds: Callable[[EngineSpec], bool]) -> AnyRule:
    return Rule[EngineSpec](at="spec.engine", field=field, cel=cel, message=message, holds=holds)


def _spec(field: str, cel: str, message: str, holds: Callable[[TierSpec], bool]) -> AnyRule:
    return Rule[TierSpec](at="spec", field=field, cel=cel, message=message, holds=holds)


RULES: Final[tuple[AnyRule, ...]] = (
    Rule[Speculation](
        at="spec.engine.speculation",
        field="draftModel",
        cel="!(self.method in ['DraftModel', 'Eagle3']) || has(self.draftModel)",
        message="methods DraftModel and Eagle3 propose with a second model; set draftModel.source",
        holds=_draft_given,
        reason="FieldValueRequired",
    ),
    Rule[Speculation](
        at="spec.engine.speculation",
        field="draftModel",
        cel="self.method in ['DraftModel', 'Eagle3'] || !has(self.draftModel)",
        message="methods NGram and MTP use no second model; remove draftModel or choose DraftModel or Eagle3",
        holds=_draft_used,
    ),
    _engine(
        "jax",
        "self.type == 'jax' || !has(self.jax)",
        "only engine.type jax has these settings; remove jax",
        lambda engine: engine.type is EngineType.JAX or engine.jax is None,
    ),
    _engine(
        "speculation.disableAboveBatchSize",
        "self.type != 'vllm' || self.dataParallel == 1 || !has(self.speculation) || "
        "!has(self.speculation.disableAboveBatchSize)",
        "vllm cannot change the number of proposed tokens while it runs with dataParallel above 1; remove one of them",
        _threshold_is_kept,
    ),
    _engine(
        "promptCache.ttl",
        "self.type != 'vllm' || !has(self.promptCache.ttl)",
        "vllm has no lifetime of cached prompts, the least recently used go first; remove ttl",
        lambda engine: engine.type is not EngineType.VLLM or engine.prompt_cache.ttl is None,
    ),
    Rule[PromptCache](
        at="spec.engine.promptCache",
        field="ttl",
        cel="!has(self.ttl) || duration(self.ttl) > duration('0s')",
        message="a lifetime of zero caches nothing; set a time above zero or enabled: false",
        holds=_ttl_positive,
    ),
    _engine(
        "batching.maxBatchedTokens",
        "!has(self.batching) || !has(self.batching.chunkedPrefill) || self.batching.chunkedPrefill || "
        "!has(self.batching.maxBatchedTokens) || !has(self.maxModelLen) || "
        "self.batching.maxBatchedTokens >= self.maxModelLen",
        "without chunkedPrefill a whole prompt must fit into one step; raise maxBatchedTokens to maxModelLen or "
        "turn chunkedPrefill on",
        _prompts_fit_one_step,
    ),
    _engine(
        "batching.maxBatchedTokens",
        "!has(self.batching) || !has(self.batching.maxBatchedTokens) || !has(self.batching.maxSequences) || "
        "self.batching.maxBatchedTokens >= self.batching.maxSequences",
        "a step takes at least one token of each sequence; raise maxBatchedTokens to maxSequences or lower "
        "maxSequences",
        _sequences_fit_one_step,
    ),
    _engine(
        "kvCache.memoryFraction",
        "!has(self.kvCache) || !has(self.kvCache.memoryFraction) || double(self.kvCache.memoryFraction) > 0.0",
        "no engine runs on none of the memory; set a share above zero, such as 0.90",
        _fraction_above_zero,
    ),
    _engine(
        "kvCache.hostOffload",
        "!has(self.kvCache) || !has(self.kvCache.hostOffload) || "
        f"{quantity('self.kvCache.hostOffload')}.isGreaterThan(quantity('0'))",
        "an offload of zero keeps nothing; set an amount or leave hostOffload out",
        _offload_above_zero,
    ),
    _spec(
        "engine.kvCache.dtype",
        f"!({_VLLM_ON_CPU_CEL} && {_has_kv_cel('dtype')}) || {_KV}.dtype in ['auto', 'fp8']",
        "vllm on cpu keeps its cache as auto or fp8; use one of them",
        _cpu_kv_dtype,
    ),
    _spec(
        "engine.kvCache.blockSize",
        f"!({_VLLM_ON_CPU_CEL} && {_has_kv_cel('blockSize')}) || {_KV}.blockSize % {_CPU_BLOCK_STEP} == 0",
        "vllm on cpu takes blocks of 32, 64, 128 or 256 tokens; use one of them",
        _cpu_block_size,
    ),
    _spec(
        "engine.kvCache.hostOffload",
        f"self.hardware.accelerator == 'nvidia' || !({_has_kv_cel('hostOffload')})",
        "only GPUs move cache blocks to host memory; remove hostOffload",
        _offload_has_two_memories,
    ),
    _spec(
        "engine.kvCache.memoryFraction",
        f"self.hardware.accelerator != 'neuron' || !({_has_kv_cel('memoryFraction')})",
        "neuron allocates its memory when it compiles; remove memoryFraction",
        _fraction_of_a_gpu,
    ),
    _spec(
        "engine.kvCache.hostOffload",
        f"!({_has_kv_cel('hostOffload')}) || !has(self.hardware.resources) || "
        "!has(self.hardware.resources.memory) || "
        f"{quantity(_KV + '.hostOffload')}.isLessThan({quantity('self.hardware.resources.memory')})",
        "the offloaded blocks do not fit into hardware.resources.memory; raise memory or lower hostOffload",
        _offload_fits_memory,
    ),
)
