"""Reads the simulator's own settings: environment variables `ENGINE_SIM_*`, which a real vLLM does not have.

ENGINE_SIM_STEP_BASE_MS                 a: time of a step whatever is in it
ENGINE_SIM_STEP_PER_SEQUENCE_MS         b: for each sequence in the step
ENGINE_SIM_STEP_PER_CONTEXT_TOKEN_MS    k: for each token of context that the step attends to
ENGINE_SIM_STEP_PER_PREFILL_TOKEN_MS    d: for each prompt token computed and each drafted token verified
ENGINE_SIM_STEP_PER_DRAFT_TOKEN_MS      for each token proposed by a draft model or head (n-gram look-up is free)
ENGINE_SIM_ACCEPTANCE_COPIED            chance that an n-gram draft token is right where the answer copies the prompt
ENGINE_SIM_ACCEPTANCE_FREE              the same where the answer is free prose
ENGINE_SIM_ACCEPTANCE_DRAFT_MODEL       chance that a draft model's or head's token is right, on any text
ENGINE_SIM_TIME_SCALE                   multiplies every step's time; 0 = do not wait at all
ENGINE_SIM_START_SECONDS                wall time with the port closed before the server is ready
ENGINE_SIM_DEVICE_MEMORY_BYTES          memory of one device, the base of --gpu-memory-utilization
ENGINE_SIM_WEIGHTS_BYTES                memory taken by the weights, over all tensor-parallel ranks
ENGINE_SIM_KV_BYTES_PER_TOKEN           16-bit KV cache bytes of one token, over all tensor-parallel ranks
ENGINE_SIM_MODEL_MAX_LEN                the model's own context length
ENGINE_SIM_EXIT_AT_START                exit code to end with instead of becoming ready (an engine that crashes)
ENGINE_SIM_HANG_AT_START                true: never become ready, port closed
ENGINE_SIM_UNHEALTHY_AFTER_SECONDS      wall time after readiness from which /health answers 503 (a dead engine core)

Step coefficients: fitted figures of Llama-3.1-8B on one A100 from aiconfigurator-core 0.12.0 (vLLM 0.24 kernel data).
Acceptance: n-gram speculation measured with SmolLM2-135M and k = 8, 3.5 tokens a step on a copied file and 1.06 on prose,
turned into a chance per token. The draft-model figures are assumed. They make a model, not a measurement of any device.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

PREFIX = "ENGINE_SIM_"
GIB = 1024**3


class SettingsError(ValueError):
    """An `ENGINE_SIM_*` variable that is unknown or has an unusable value."""


@dataclass(frozen=True)
class Settings:
    """One field for each variable: the variable's name is the field's in capitals after `ENGINE_SIM_`."""

    step_base_ms: float = 11.47
    step_per_sequence_ms: float = 0.0381
    step_per_context_token_ms: float = 0.0000794
    step_per_prefill_token_ms: float = 0.06041
    step_per_draft_token_ms: float = 0.6
    acceptance_copied: float = 0.73
    acceptance_free: float = 0.06
    acceptance_draft_model: float = 0.7
    time_scale: float = 1.0
    start_seconds: float = 3.0
    device_memory_bytes: int = 80 * GIB
    weights_bytes: int = 16 * GIB
    kv_bytes_per_token: int = 131_072
    model_max_len: int = 131_072
    exit_at_start: int = -1
    hang_at_start: bool = False
    unhealthy_after_seconds: float = -1.0


OFF_BELOW_ZERO = {"exit_at_start", "unhealthy_after_seconds"}
ABOVE_ZERO = {"kv_bytes_per_token", "model_max_len", "device_memory_bytes"}


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Settings from an environment; SettingsError names the variable, its value and what it may be."""
    known = {PREFIX + field.name.upper(): field for field in fields(Settings)}
    values: dict[str, float | int | bool] = {}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX):
            continue
        if variable not in known:
            raise SettingsError(f"{variable}: no such setting; known are {', '.join(sorted(known))}")
        field = known[variable]
        values[field.name] = _parse(variable, text.strip(), type(field.default), field.name)
    return Settings(**values)  # type: ignore[arg-type]  # each value was parsed by its own field's type


def _parse(variable: str, text: str, kind: type, name: str) -> float | int | bool:
    if kind is bool:
        if text.lower() in {"1", "true"}:
            return True
        if text.lower() in {"0", "false", ""}:
            return False
        raise SettingsError(f"{variable}: {text!r} is not true or false")
    try:
        number = int(text) if kind is int else float(text)
    except ValueError:
        raise SettingsError(
            f"{variable}: {text!r} is not {'an integer' if kind is int else 'a number'}"
        ) from None
    if name in OFF_BELOW_ZERO:
        return number
    if not 0 <= number < float("inf") or (name in ABOVE_ZERO and number == 0):
        raise SettingsError(
            f"{variable}: {text} must be {'above' if name in ABOVE_ZERO else 'at least'} 0 and finite"
        )
    if name.startswith("acceptance_") and number > 1:
        raise SettingsError(f"{variable}: {text} is a chance and must lie between 0 and 1")
    return number
