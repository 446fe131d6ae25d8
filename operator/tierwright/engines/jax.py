"""Decides how the JAX engine is started; until the project's worker is built, only an image given by the user serves."""

from typing import Final

from tierwright.api.hardware import Accelerator
from tierwright.api.tier import TierSpec
from tierwright.engines.engine import CACHE_PATH, EnginePlan, EngineRequest
from tierwright.engines.images import version_from_image
from tierwright.engines.vllm_arguments import vllm_arguments
from tierwright.hardware.refusal import unsupported

UID: Final = 65532
GID: Final = 65532
HEALTH_PATH: Final = "/health"


def jax_plan(spec: TierSpec, request: EngineRequest) -> EnginePlan:
    """How a server for JAX tiers is started: the user's image, told by the arguments that vLLM understands.

    Raises:
        RefusedError: there is no image to run, or a field that these arguments cannot express.
    """
    engine = spec.engine
    if spec.hardware.accelerator is not Accelerator.NEURON:
        raise unsupported(
            "spec.engine.type",
            f"the JAX worker is not built yet; use type: vllm on {spec.hardware.accelerator}",
        )
    if engine.image is None:
        raise unsupported(
            "spec.engine.image",
            "the JAX worker is not built yet; set engine.image to a server that takes vLLM's arguments",
        )
    if engine.jax is not None and (engine.jax.length_buckets or engine.jax.prefill_buckets):
        raise unsupported("spec.engine.jax", "buckets come with the JAX worker, which is not built yet")
    if engine.prompt_cache.ttl is not None:
        raise unsupported(
            "spec.engine.promptCache.ttl", "ttl comes with the JAX worker, which is not built yet"
        )
    return EnginePlan(
        image=engine.image,
        version=engine.version or version_from_image(engine.image),
        args=vllm_arguments(engine, spec.model.name, request),
        env={
            "JAX_COMPILATION_CACHE_DIR": f"{CACHE_PATH}/jax",
            "NEURON_COMPILE_CACHE_URL": f"{CACHE_PATH}/neuron",
        },
        health_path=HEALTH_PATH,
        uid=UID,
        gid=GID,
    )
