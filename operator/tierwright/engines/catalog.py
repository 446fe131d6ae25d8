"""Lists the engines: which file decides how each is told."""

from collections.abc import Callable, Mapping
from typing import Final

from tierwright.api.engine import EngineType
from tierwright.api.tier import TierSpec
from tierwright.engines.engine import EnginePlan, EngineRequest
from tierwright.engines.jax import jax_plan
from tierwright.engines.vllm import vllm_plan

_PLANS: Final[Mapping[EngineType, Callable[[TierSpec, EngineRequest], EnginePlan]]] = {
    EngineType.VLLM: vllm_plan,
    EngineType.JAX: jax_plan,
}


def engine_plan(spec: TierSpec, request: EngineRequest) -> EnginePlan:
    """How the tier's engine is started, probed and stopped.

    Raises:
        RefusedError: the engine cannot do what the spec asks, or is not built yet.
    """
    return _PLANS[spec.engine.type](spec, request)
