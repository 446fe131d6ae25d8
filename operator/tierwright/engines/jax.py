"""Decides how the JAX worker is started on CPUs, NVIDIA GPUs and Neuron devices: image, environment, probes, user."""

from collections.abc import Mapping
from typing import Final

from tierwright.api.hardware import Accelerator
from tierwright.api.tier import TierSpec
from tierwright.engines.engine import CACHE_PATH, EnginePlan, EngineRequest
from tierwright.engines.images import version_from_image
from tierwright.engines.jax_arguments import compile_arguments, serve_arguments

NEWEST: Final = "0.1.0"
"""The newest version of the worker, and the one whose arguments are generated."""
_FLAVOURS: Final[Mapping[Accelerator, str]] = {
    Accelerator.CPU: "cpu",
    Accelerator.NVIDIA: "cuda",
    Accelerator.NEURON: "neuron",
}
UID: Final = 65532
GID: Final = 65532
HEALTH_PATH: Final = "/health"
"""Answers 200 only once every program is warm, and fails when the engine has died or is told to stop."""


def jax_plan(spec: TierSpec, request: EngineRequest) -> EnginePlan:
    """How the worker is started for the tier.

    Raises:
        RefusedError: a field that the worker cannot honour.
    """
    image, version = _image_and_version(spec, request)
    return EnginePlan(
        image=image,
        version=version,
        args=serve_arguments(spec, request),
        compile_args=compile_arguments(spec, request),
        env=_environment(spec),
        health_path=HEALTH_PATH,
        uid=UID,
        gid=GID,
        warnings=_warnings(version),
    )


def _image_and_version(spec: TierSpec, request: EngineRequest) -> tuple[str, str | None]:
    engine = spec.engine
    if engine.image is not None:
        return engine.image, engine.version or version_from_image(engine.image)
    if request.image is not None:
        return request.image, engine.version or request.version
    version = engine.version or NEWEST
    return f"{request.worker_repository}:{version}-{_FLAVOURS[spec.hardware.accelerator]}", version


def _environment(spec: TierSpec) -> dict[str, str]:
    if spec.hardware.accelerator is Accelerator.CPU:
        return {}
    if spec.hardware.accelerator is Accelerator.NVIDIA:
        fraction = spec.engine.kv_cache.memory_fraction
        own = {} if fraction is None else {"XLA_PYTHON_CLIENT_MEM_FRACTION": fraction}
        return {"CUDA_CACHE_PATH": f"{CACHE_PATH}/cuda", **own}
    return {
        "NEURON_COMPILE_CACHE_URL": f"{CACHE_PATH}/neuron",
        # Greedy text would change from run to run.
        "NEURON_RT_STOCHASTIC_ROUNDING_EN": "0",
        # The compiler does not take the default generator of JAX, threefry, in full.
        "JAX_DEFAULT_PRNG_IMPL": "rbg",
    }


def _warnings(version: str | None) -> tuple[str, ...]:
    if version is None or version.split(".")[:2] == NEWEST.split(".")[:2]:
        return ()
    return (
        f"spec.engine.version: the arguments generated are those of the JAX worker {NEWEST}; "
        f"version {version} has not been checked",
    )
