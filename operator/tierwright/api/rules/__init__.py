"""Lists every rule that refuses a tier, by subject; the CRD and the models are both made from this list."""

from typing import Final

from tierwright.api.rules import (
    cache,
    engine,
    env,
    extra_args,
    hardware,
    identity,
    jax,
    pod,
    rollout,
    scaling,
    sources,
    traffic,
)
from tierwright.api.rules.rule import AnyRule, Rule, TransitionRule, Violation, violations

RULES: Final[tuple[AnyRule, ...]] = (
    *identity.RULES,
    *sources.RULES,
    *engine.RULES,
    *jax.RULES,
    *extra_args.RULES,
    *env.RULES,
    *hardware.RULES,
    *pod.RULES,
    *cache.RULES,
    *scaling.RULES,
    *rollout.RULES,
    *traffic.RULES,
)

__all__ = ["RULES", "AnyRule", "Rule", "TransitionRule", "Violation", "violations"]
