"""Rules on environment variables: one source each, and none that the operator or a device plugin sets."""

from typing import Final

from tierwright.api.engine import EnvVar, EnvVarSource
from tierwright.api.rules.rule import AnyRule, Rule, cel_list

OPERATOR_ENV: Final = (
    "CUDA_CACHE_PATH",
    "FLASHINFER_WORKSPACE_BASE",
    "HF_HOME",
    "HF_HUB_DISABLE_TELEMETRY",
    "HF_HUB_OFFLINE",
    "HOME",
    "JAX_COMPILATION_CACHE_DIR",
    "JAX_DEFAULT_PRNG_IMPL",
    "JAX_PLATFORMS",
    "NEURON_COMPILE_CACHE_URL",
    "NEURON_RT_NUM_CORES",
    "NEURON_RT_STOCHASTIC_ROUNDING_EN",
    "NUMBA_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "USER",
    "VLLM_CACHE_ROOT",
    "VLLM_CONFIG_ROOT",
    "VLLM_ENGINE_READY_TIMEOUT_S",
    "VLLM_NO_USAGE_STATS",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
)
"""Variables that the operator sets itself, on one accelerator or engine or another."""
DEVICE_ENV: Final = ("CUDA_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES", "NVIDIA_VISIBLE_DEVICES")
"""Variables by which the device plugin gives a pod its devices; set by hand they take those of other pods."""
TOKEN_ENV: Final = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_SOURCES: Final = ("secretKeyRef", "configMapKeyRef", "fieldRef")


def _one_source(source: EnvVarSource) -> bool:
    given = (source.secret_key_ref, source.config_map_key_ref, source.field_ref)
    return sum(member is not None for member in given) == 1


def _refused(names: tuple[str, ...], message: str) -> AnyRule:
    return Rule[EnvVar](
        at="spec.engine.env[]",
        field="name",
        cel=f"!(self.name in {cel_list(names)})",
        message=message,
        holds=lambda variable: variable.name not in names,
    )


RULES: Final[tuple[AnyRule, ...]] = (
    Rule[EnvVar](
        at="spec.engine.env[]",
        field="value",
        cel="has(self.value) != has(self.valueFrom)",
        message="a variable has one of value and valueFrom; set exactly one",
        holds=lambda variable: (variable.value is None) != (variable.value_from is None),
    ),
    Rule[EnvVarSource](
        at="spec.engine.env[].valueFrom",
        field="secretKeyRef",
        cel=f"[{', '.join(f'has(self.{source})' for source in _SOURCES)}].filter(given, given).size() == 1",
        message="valueFrom names one source; set exactly one of secretKeyRef, configMapKeyRef and fieldRef",
        holds=_one_source,
    ),
    _refused(OPERATOR_ENV, "the operator sets this variable itself; remove it"),
    _refused(
        DEVICE_ENV,
        "the device plugin sets this variable to the devices that the pod got, and another value would take those "
        "of other pods; remove it",
    ),
    _refused(TOKEN_ENV, "the token is passed to everything that downloads by model.tokenSecretRef; set that"),
)
