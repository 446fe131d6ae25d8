"""Decides how vLLM is started on NVIDIA GPUs and on CPUs: image, arguments, environment, probes, user."""

from collections.abc import Mapping
from typing import Final

from tierwright.api.engine import EngineSpec
from tierwright.api.hardware import Accelerator
from tierwright.api.tier import TierSpec
from tierwright.engines.engine import CACHE_PATH, EnginePlan, EngineRequest
from tierwright.engines.images import version_from_image
from tierwright.engines.vllm_arguments import vllm_arguments
from tierwright.hardware.refusal import unsupported

NEWEST: Final = "0.32.0"
"""The newest version of vLLM, and the one whose arguments are generated."""
_REPOSITORIES: Final[Mapping[Accelerator, str]] = {
    Accelerator.NVIDIA: "vllm/vllm-openai",
    Accelerator.CPU: "vllm/vllm-openai-cpu",
}
UID: Final = 2000
GID: Final = 0
"""The user and group that vLLM's images are prepared for; other users need group 0 as well."""
_CPU_MEMORY_FRACTION: Final = "0.7"
# On a CPU the share is one of the pod's memory limit, and vLLM 0.32 does not start unless that much is free. Its own
# processes take a few GiB by then, more than the 8 % that its default of 0.92 leaves in most pods.
HEALTH_PATH: Final = "/health"
"""Answers only once the engine serves, stays open when an API key is set, and fails when the engine has died."""


def vllm_plan(spec: TierSpec, request: EngineRequest) -> EnginePlan:
    """How vLLM is started for the tier.

    Raises:
        RefusedError: an accelerator or a field that is not built yet.
    """
    accelerator = spec.hardware.accelerator
    if accelerator is Accelerator.NEURON:
        raise unsupported(
            "spec.engine.type",
            "vllm on neuron is not supported yet; use type: jax with engine.image, or another accelerator",
        )
    image, version = _image_and_version(spec, request)
    return EnginePlan(
        image=image,
        version=version,
        args=vllm_arguments(_for_device(spec), spec.model.name, request),
        env=_environment(request),
        health_path=HEALTH_PATH,
        uid=UID,
        gid=GID,
        warnings=_warnings(version),
    )


def _for_device(spec: TierSpec) -> EngineSpec:
    """The engine's settings with what vLLM's own defaults get wrong in a pod of the device."""
    engine = spec.engine
    if spec.hardware.accelerator is not Accelerator.CPU or engine.kv_cache.memory_fraction is not None:
        return engine
    cache = engine.kv_cache.model_copy(update={"memory_fraction": _CPU_MEMORY_FRACTION})
    return engine.model_copy(update={"kv_cache": cache})


def _image_and_version(spec: TierSpec, request: EngineRequest) -> tuple[str, str]:
    engine = spec.engine
    if engine.image is not None:
        return engine.image, engine.version or version_from_image(engine.image) or NEWEST
    if request.image is not None:
        return request.image, engine.version or request.version or NEWEST
    version = engine.version or NEWEST
    return f"{_REPOSITORIES[spec.hardware.accelerator]}:v{version}", version


def _environment(request: EngineRequest) -> dict[str, str]:
    return {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_ENGINE_READY_TIMEOUT_S": str(request.startup_seconds),
        "VLLM_CACHE_ROOT": f"{CACHE_PATH}/vllm",
        "VLLM_CONFIG_ROOT": f"{CACHE_PATH}/vllm-config",
        "TORCHINDUCTOR_CACHE_DIR": f"{CACHE_PATH}/torchinductor",
        "TRITON_CACHE_DIR": f"{CACHE_PATH}/triton",
        "CUDA_CACHE_PATH": f"{CACHE_PATH}/cuda",
        "FLASHINFER_WORKSPACE_BASE": CACHE_PATH,
        "NUMBA_CACHE_DIR": f"{CACHE_PATH}/numba",
    }


def _warnings(version: str) -> tuple[str, ...]:
    if version.split(".")[:2] == NEWEST.split(".")[:2]:
        return ()
    return (
        f"spec.engine.version: the arguments generated are those of vllm {NEWEST}; "
        f"version {version} has not been checked",
    )
