"""How the engine is configured: parallelism, batch sizes, speculation, KV cache and prompt cache."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from tierwright.api import patterns
from tierwright.api.base import ApiModel
from tierwright.api.markers import Atomic, ListMap, ListSet
from tierwright.api.model import ModelSource, SecretKeyRef
from tierwright.api.scalars import Duration, Fraction, ObjectName, Quantity, SecretKey


class EngineType(StrEnum):
    """Inference engines."""

    VLLM = "vllm"
    JAX = "jax"


class SpeculationMethod(StrEnum):
    """Ways to propose tokens that the model then verifies."""

    N_GRAM = "NGram"
    DRAFT_MODEL = "DraftModel"
    EAGLE3 = "Eagle3"
    MTP = "MTP"


class Batching(ApiModel):
    """How much the engine works on at once."""

    max_sequences: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Most requests in one step."""
    max_batched_tokens: Annotated[int, Field(ge=1, le=1_048_576)] | None = None
    """Most tokens in one step."""
    chunked_prefill: bool | None = None
    """Split long prompts over several steps."""


class DraftModel(ApiModel):
    """The small model that proposes tokens."""

    source: ModelSource
    """Where the draft model's weights come from; the same forms as model.source."""


class Speculation(ApiModel):
    """Speculative decoding with one method; absent means off."""

    method: SpeculationMethod
    """NGram looks tokens up in the prompt; DraftModel and Eagle3 use a second model; MTP uses the model's own heads."""
    tokens: Annotated[int, Field(ge=1, le=32)]
    """Tokens proposed in one step."""
    draft_model: DraftModel | None = None
    """Needed by DraftModel and Eagle3."""
    disable_above_batch_size: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Propose nothing while more requests than this run."""


class KvCache(ApiModel):
    """The cache of attention keys and values."""

    dtype: Literal["auto", "bfloat16", "float16", "fp8", "int8"] | None = None
    """Number format of the cache."""
    memory_fraction: Fraction | None = None
    """Share of the accelerator's memory that the engine may use, weights included."""
    block_size: Literal[1, 8, 16, 32, 64, 128, 256] | None = None
    """Tokens in one block."""
    host_offload: Quantity | None = None
    """Host memory that holds blocks evicted from the accelerator."""


class PromptCache(ApiModel):
    """Reuse of the KV cache between requests that begin alike."""

    enabled: bool = True
    """Whether prompts are cached at all."""
    scope: Literal["Tier", "Tenant"] = "Tier"
    """Who shares cached prompts: all users of the tier, or each tenant alone."""
    ttl: Duration | None = None
    """How long an unused entry lives; only for engines that have one."""


class JaxOptions(ApiModel):
    """Settings of the JAX engine; only for engine.type jax."""

    length_buckets: Annotated[
        list[Annotated[int, Field(ge=128, le=1_048_576)]], Field(max_length=16), ListSet()
    ] = []
    """Context lengths, in tokens and multiples of 128, that get an executable of their own. The longest holds maxModelLen."""
    prefill_buckets: Annotated[
        list[Annotated[int, Field(ge=64, le=1_048_576)]], Field(max_length=16), ListSet()
    ] = []
    """Prompt chunk lengths, in tokens, that get an executable of their own."""


class ConfigMapKeyRef(ApiModel):
    """One key of a ConfigMap in the tier's namespace."""

    name: ObjectName
    """Name of the ConfigMap."""
    key: SecretKey
    """Key in the ConfigMap."""


class FieldRef(ApiModel):
    """A field of the pod."""

    field_path: Annotated[str, Field(pattern=patterns.FIELD_PATH, max_length=253)]
    """Path of the field, such as status.podIP."""


class EnvVarSource(ApiModel):
    """Where the value of an environment variable comes from; exactly one is set."""

    secret_key_ref: SecretKeyRef | None = None
    """A key of a Secret."""
    config_map_key_ref: ConfigMapKeyRef | None = None
    """A key of a ConfigMap."""
    field_ref: FieldRef | None = None
    """A field of the pod."""


class EnvVar(ApiModel):
    """One environment variable of the engine's container."""

    name: Annotated[str, Field(pattern=patterns.ENV_NAME, min_length=1, max_length=253)]
    """Name of the variable."""
    value: Annotated[str, Field(max_length=4096)] | None = None
    """Its value; or use valueFrom."""
    value_from: EnvVarSource | None = None
    """Where the value comes from."""


class EngineSpec(ApiModel):
    """The engine and its settings."""

    type: EngineType
    """vllm, or jax for the project's own worker."""
    version: Annotated[str, Field(pattern=patterns.ENGINE_VERSION, max_length=64)] | None = None
    """Version of the engine; default: from the image tag, else the newest known."""
    image: Annotated[str, Field(pattern=patterns.IMAGE, min_length=1, max_length=512)] | None = None
    """Container image; default per engine and accelerator. The one in use stands in status.engine.image."""
    tensor_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    """Devices (cores on neuron) that share each layer."""
    pipeline_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    """Groups of devices that hold consecutive layers."""
    data_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    """Copies of the model in one replica."""
    max_model_len: Annotated[int, Field(ge=16, le=10_485_760)] | None = None
    """Longest context in tokens; default: the model's own."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] | None = None
    """Number format of weights and activations."""
    quantization: Annotated[str, Field(pattern=patterns.QUANTIZATION, max_length=64)] | None = None
    """Quantization of the weights, by the engine's own name, such as fp8, awq or gptq."""
    batching: Batching = Batching()
    """Batch sizes."""
    speculation: Speculation | None = None
    """Speculative decoding; absent means off."""
    kv_cache: KvCache = KvCache()
    """KV cache."""
    prompt_cache: PromptCache = PromptCache()
    """Prompt (prefix) cache."""
    jax: JaxOptions | None = None
    """Settings of the JAX engine."""
    extra_args: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=1024)]], Field(max_length=64), Atomic()
    ] = []
    """More arguments for the engine; refused when they set what a typed field sets."""
    env: Annotated[list[EnvVar], Field(max_length=64), ListMap(("name",))] = []
    """More environment variables for the engine."""
