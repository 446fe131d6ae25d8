"""Lists every object that one tier wants, in the order in which they are applied: read this file first."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tierwright.api.tier import InferenceTier
from tierwright.api.warnings import tier_warnings
from tierwright.desired.budgets import budgets
from tierwright.desired.deployment import deployment
from tierwright.desired.network_policy import network_policy
from tierwright.desired.pdb import pod_disruption_budget
from tierwright.desired.pin import PinnedEngine, pinned_engine
from tierwright.desired.pod_spec_hash import pod_spec_hash
from tierwright.desired.pod_template import pod_template
from tierwright.desired.pvc import persistent_volume_claim
from tierwright.desired.service_account import service_account
from tierwright.desired.services import endpoint, headless_service, service
from tierwright.desired.volumes import COMPILE_VOLUME
from tierwright.desired.weights import WEIGHTS_VOLUME, weights_plan
from tierwright.engines.catalog import engine_plan
from tierwright.engines.engine import EngineRequest
from tierwright.hardware.accelerators import placement
from tierwright.hardware.refusal import Refusal, RefusedError

__all__ = [
    "Bundle",
    "BundleContext",
    "Child",
    "PinnedEngine",
    "Refusal",
    "desired_bundle",
    "pinned_engine",
    "refusals",
]

_ANY_REQUEST: Final = EngineRequest(
    model_path="/m", draft_path="/d", drain_seconds=1, startup_seconds=1, image=None, version=None
)
"""Enough for an engine to say what it cannot do."""


@dataclass(frozen=True)
class BundleContext:
    """What the children depend on beside the tier itself."""

    pinned: PinnedEngine | None = None
    """The engine that the live Deployment runs, from ``pinned_engine``."""


@dataclass(frozen=True)
class Child:
    """One object that must exist."""

    manifest: dict[str, Any]
    """Has an owner reference, unless the object outlives the tier; it is never pruned then."""


@dataclass(frozen=True)
class Bundle:
    """Everything that one tier wants."""

    children: tuple[Child, ...]
    """In apply order; the workload last."""
    workload: tuple[str, str]
    """Kind and name of the object that runs the pods; its manifest carries ``spec.replicas``."""
    endpoint: str
    """Host and port inside the cluster, such as ``llama-fast.serving.svc:8000``."""
    engine_image: str
    engine_version: str | None
    warnings: tuple[str, ...]
    """What is allowed but likely not meant."""


def desired_bundle(tier: InferenceTier, context: BundleContext) -> Bundle | Refusal:
    """All children of the tier, or why there can be none."""
    try:
        return _bundle(tier, context)
    except RefusedError as error:
        return error.refusal


def refusals(tier: InferenceTier) -> tuple[Refusal, ...]:
    """Everything for which the tier cannot be built, for tools that show all errors at once; empty when it can."""
    parts: tuple[Callable[[], object], ...] = (
        lambda: placement(tier.spec),
        lambda: weights_plan(tier),
        lambda: engine_plan(tier.spec, _ANY_REQUEST),
    )
    found = tuple(refusal for part in parts if (refusal := _refusal_of(part)) is not None)
    if found:
        return found
    result = desired_bundle(tier, BundleContext())
    return (result,) if isinstance(result, Refusal) else ()


def _refusal_of(part: Callable[[], object]) -> Refusal | None:
    try:
        part()
    except RefusedError as error:
        return error.refusal
    return None


def _bundle(tier: InferenceTier, context: BundleContext) -> Bundle:
    spec = tier.spec
    where = placement(spec)
    weights = weights_plan(tier)
    times = budgets(spec.rollout, fetches=bool(weights.fetch))
    user_hash = pod_spec_hash(spec)
    pinned = context.pinned
    in_use = pinned if pinned is not None and pinned.pod_spec_hash == user_hash else None
    plan = engine_plan(
        spec,
        EngineRequest(
            model_path=weights.model_path,
            draft_path=weights.draft_path,
            drain_seconds=times.drain,
            startup_seconds=times.startup,
            image=None if in_use is None else in_use.image,
            version=None if in_use is None else in_use.version,
        ),
    )
    template = pod_template(tier, where, weights, plan, times)
    workload = deployment(tier, template, plan, times, user_hash)
    return Bundle(
        children=(*_companions(tier), Child(workload)),
        workload=(workload["kind"], workload["metadata"]["name"]),
        endpoint=endpoint(tier),
        engine_image=plan.image,
        engine_version=plan.version,
        warnings=(*plan.warnings, *tier_warnings(spec)),
    )


def _companions(tier: InferenceTier) -> Iterator[Child]:
    account = service_account(tier)
    if account is not None:
        yield Child(account)
    for purpose, cache in (
        (WEIGHTS_VOLUME, tier.spec.cache.weights),
        (COMPILE_VOLUME, tier.spec.cache.compile),
    ):
        if cache is not None and cache.sharing == "Shared":
            yield Child(persistent_volume_claim(tier, purpose, cache))
    yield Child(network_policy(tier))
    yield Child(service(tier))
    yield Child(headless_service(tier))
    yield Child(pod_disruption_budget(tier))
