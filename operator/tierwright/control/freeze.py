"""Freezes what is known of one tier at the end of a reconcile into the snapshot that its status is computed from."""

from dataclasses import dataclass
from datetime import datetime

from tierwright.control.apply_plan import controller_of
from tierwright.control.children import Applied
from tierwright.control.compile_reader import read_compile_view
from tierwright.control.intake import Intake
from tierwright.control.live_objects import stored_workload
from tierwright.desired.bundle import CompileStep
from tierwright.desired.labels import selector_text
from tierwright.kube.resources import JOB, PVC, Object
from tierwright.kube.verbs import KubeClient
from tierwright.observe.additions import child_additions
from tierwright.observe.evidence import is_starting, list_events, subjects, template_volumes
from tierwright.observe.pods import pod_view, volume_claim_view, workload_view
from tierwright.observe.snapshot import ExactnessView, Facts, ScaleView, ScalingView, Snapshot
from tierwright.observe.store import Store, TierKey


@dataclass(frozen=True)
class Findings:
    """What the reconcile did and learned."""

    intake: Intake
    applied: Applied
    scale: ScaleView | None
    scaling: ScalingView | None
    exactness: ExactnessView | None
    facts: Facts | None
    compile: CompileStep | None


@dataclass(frozen=True)
class Frozen:
    """The snapshot, and whether some pod must be looked at again because of what it is not yet, or has been for long."""

    snapshot: Snapshot
    has_stuck_pods: bool
    has_young_pods: bool


async def freeze(
    client: KubeClient, store: Store, key: TierKey, obj: Object, findings: Findings, now: datetime
) -> Frozen:
    """Read all from the store; Events are listed of the few objects that need explaining."""
    namespace, name = key
    uid = obj["metadata"]["uid"]
    workload = stored_workload(store, key, uid)
    # Without a workload of this very tier the labelled pods are those of a deleted tier of the same name.
    found = store.pods_of(namespace, name) if workload is not None else []
    pods = tuple(pod_view(pod) for pod in sorted(found, key=_name))
    compiles = await read_compile_view(
        client, findings.compile, workload, store.children_of(namespace, name, JOB), uid
    )
    looked_at = pods if compiles is None else (*pods, *compiles.pods)
    wanted = subjects(looked_at, *template_volumes(workload), now)
    if compiles is not None and compiles.lacks_pods:
        wanted = (*wanted, ("Job", compiles.job_name))
    snapshot = Snapshot(
        generation=int(obj["metadata"].get("generation") or 0),
        stage=findings.intake.stage,
        selector=selector_text(name),
        tier=findings.intake.tier,
        refusal=findings.intake.refusal,
        facts=findings.facts,
        problems=tuple(findings.applied.problems),
        waiting_for=tuple(findings.applied.waiting_for),
        scale=findings.scale,
        scaling=findings.scaling,
        exactness=findings.exactness,
        workload=workload_view(workload) if workload is not None else None,
        pods=pods,
        claims=tuple(
            volume_claim_view(claim) for claim in sorted(store.children_of(namespace, name, PVC), key=_name)
        ),
        events=await list_events(client, namespace, wanted),
        additions=child_additions(
            child
            for child in store.children_of(namespace, name)
            if (controller_of(child) or {}).get("uid") in (None, uid)
        ),
        compile=compiles,
    )
    return Frozen(snapshot, bool(wanted), is_starting(looked_at, now))


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])
