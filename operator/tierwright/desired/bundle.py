"""Lists every object that one tier wants, in the order in which they are applied: read this file first."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tierwright.api.rules.cache import shared_on_one_node
from tierwright.api.tier import InferenceTier
from tierwright.api.warnings import tier_warnings
from tierwright.desired.budgets import Budgets, budgets
from tierwright.desired.compile_job import compile_job, compile_key
from tierwright.desired.compile_step import CompileFacts, CompileStep, compile_step
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
from tierwright.engines.engine import WORKER_REPOSITORY, EnginePlan, EngineRequest
from tierwright.hardware.accelerators import placement
from tierwright.hardware.placement import Placement
from tierwright.hardware.refusal import Refusal, RefusedError

__all__ = [
    "Bundle",
    "BundleContext",
    "Child",
    "CompileFacts",
    "CompileStep",
    "PinnedEngine",
    "Refusal",
    "desired_bundle",
    "pinned_engine",
    "refusals",
    "refusals_of_parts",
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
    compile: CompileFacts | None = None
    """What is known of compiling; None shows all that would ever be made."""
    worker_repository: str = WORKER_REPOSITORY
    """Where the default images of the project's own worker lie."""


@dataclass(frozen=True)
class Child:
    """One object that must exist."""

    manifest: dict[str, Any]
    """Has an owner reference, unless the object outlives the tier; it is never pruned then."""
    left_alone: bool = False
    """Stays as it is for now, there or not: it is neither applied nor pruned."""


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
    compile: CompileStep | None = None
    """What happens about the shared compile volume; None where there is none, or the engine compiles by itself alone."""

    @property
    def waits(self) -> bool:
        """Whether the workload is left alone until a Job has ended."""
        return self.compile is not None and self.compile.record is None

    @property
    def compile_job(self) -> str:
        """The name of the Job that fills the compile volume; empty where none ever does."""
        return self.compile.job_name if self.compile is not None else ""


def desired_bundle(tier: InferenceTier, context: BundleContext) -> Bundle | Refusal:
    """All children of the tier, or why there can be none."""
    try:
        return _bundle(tier, context)
    except RefusedError as error:
        return error.refusal


def refusals(tier: InferenceTier) -> tuple[Refusal, ...]:
    """Everything for which the tier cannot be built, for tools that show all errors at once; empty when it can."""
    found = refusals_of_parts(tier)
    if found:
        return found
    result = desired_bundle(tier, BundleContext())
    return (result,) if isinstance(result, Refusal) else ()


def refusals_of_parts(tier: InferenceTier) -> tuple[Refusal, ...]:
    """What hardware, weights and engine refuse, each for itself; of a tier that breaks rules as well."""
    parts: tuple[Callable[[], object], ...] = (
        lambda: placement(tier.spec),
        lambda: weights_plan(tier),
        lambda: engine_plan(tier.spec, _ANY_REQUEST),
    )
    return tuple(refusal for part in parts if (refusal := _refusal_of(part)) is not None)


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
            worker_repository=context.worker_repository,
        ),
    )
    template = pod_template(tier, where, weights, plan, times)
    step = _compile_step(tier, where, template, plan, times, context.compile)
    workload = deployment(tier, template, plan, times, user_hash, step.record if step else None)
    waits = step is not None and step.record is None
    return Bundle(
        children=(*_companions(tier), *_jobs(step), Child(workload, left_alone=waits)),
        workload=(workload["kind"], workload["metadata"]["name"]),
        endpoint=endpoint(tier),
        engine_image=plan.image,
        engine_version=plan.version,
        warnings=(*plan.warnings, *tier_warnings(spec)),
        compile=step,
    )


def _compile_step(
    tier: InferenceTier,
    where: Placement,
    template: dict[str, Any],
    plan: EnginePlan,
    times: Budgets,
    facts: CompileFacts | None,
) -> CompileStep | None:
    """Where every replica has a volume of its own, a Job would fill one that no pod sees."""
    cache = tier.spec.cache.compile
    if not plan.compile_args or cache is None or cache.sharing != "Shared":
        return None
    return compile_step(
        compile_key(template, plan),
        compile_job(tier, template, plan, times),
        facts,
        exclusive=bool(where.devices) or shared_on_one_node(tier.spec),
        suspended=tier.spec.suspend,
    )


def _jobs(step: CompileStep | None) -> Iterator[Child]:
    if step is not None and (step.is_wanted or step.is_left):
        yield Child(step.job, left_alone=step.is_left)


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
