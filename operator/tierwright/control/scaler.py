"""Decides how many replicas the workload gets and who may say so: one owner of ``spec.replicas`` in every mode (rule 3).

The owner is the field manager ``tierwright-scaler``. The children's manager sends replicas at creation and until
managedFields show the scaler as owner, never afterwards. Ownership is never released by an empty apply, which would
reset the field to 1.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tierwright.api.conditions import Reason
from tierwright.api.status import TierStatus
from tierwright.api.tier import InferenceTier
from tierwright.kube.resources import Object
from tierwright.observe.managers import CHILDREN_MANAGER, SCALER_MANAGER
from tierwright.observe.snapshot import ScaleView, ScalingView

_ADVICE: Final = re.compile(r" recommended, (\w+): (.*)", re.DOTALL)


@dataclass(frozen=True)
class Held:
    """What is known of the replicas that the tier had until now.

    ``live`` are the workload's replicas while the scaler owns them, else None. ``reported`` is what the last status
    said was wanted; None when there was none, or when the tier was suspended then.
    """

    live: int | None = None
    reported: int | None = None


def held(workload: Mapping[str, Any] | None, status: TierStatus) -> Held:
    """The replicas that the tier had until now; those of a suspended tier say nothing."""
    if any(condition.reason == Reason.SUSPENDED for condition in status.conditions):
        return Held()
    owned = workload is not None and scaler_owns_replicas(workload)
    live = int(workload["spec"].get("replicas") or 0) if workload is not None and owned else None
    return Held(live, status.desired_replicas)


def decide(
    tier: InferenceTier, before: Held, other_scaler: str | None, view: ScalingView | None = None
) -> ScaleView:
    """The replicas that the scaler asks for, and the words for the condition ScalingActive.

    ``view`` is what the autoscaler says of the tier, None where it has not looked at it yet: then whatever is asked for
    stays. What it asks for is held to the bounds of the spec as it is now.

    ``wanted`` is None while another autoscaler works on the workload itself: two of them on one target fight, so ours
    keeps silent and says so.
    """
    if other_scaler is not None:
        return ScaleView(
            None,
            Reason.CONFLICT,
            f"{other_scaler} scales the workload itself, so its replicas are left alone; let it scale"
            f" InferenceTier {tier.metadata.name} instead (scaling.mode: Manual), or delete it",
            suspended=tier.spec.suspend,
        )
    if tier.spec.suspend:
        return ScaleView(0, Reason.SUSPENDED, "spec.suspend asks for no replicas", suspended=True)
    scaling = tier.spec.scaling
    if view is not None and view.reason is Reason.MANUAL:
        view = None  # of before the mode changed
    if scaling.mode == "Auto":
        kept = before.live if before.live is not None else before.reported
        # Zero below the bounds is what a suspension left, whatever the tier went through since: it says nothing.
        starts = kept is None or (kept == 0 and scaling.fewest_in_auto > 0)
        wanted = scaling.bounded_in_auto(tier.spec.replicas if kept is None or starts else kept)
        if view is None:
            return ScaleView(
                wanted,
                Reason.START_VALUE,
                f"{_replicas(wanted)} kept, within {scaling.fewest_in_auto} to {scaling.max_replicas or 'any'}: the tier was"
                " not measured yet",
            )
        if view.wanted is not None and not starts and not _is_about_another_number(view, before):
            wanted = scaling.bounded_in_auto(view.wanted)
        return ScaleView(wanted, view.reason, view.message, follows_load=view.follows_load)
    if scaling.mode == "Recommend":
        return ScaleView(tier.spec.replicas, Reason.RECOMMENDING, f"spec.replicas decides; {_advice(view)}")
    return ScaleView(tier.spec.replicas, Reason.MANUAL, "spec.replicas decides")


def _is_about_another_number(view: ScalingView, before: Held) -> bool:
    """Whether fewer replicas were decided on when there was another number of them: a second operator has changed it since.

    Its number may rest on more than was seen here, so nothing goes before the next look.
    """
    return (
        view.wanted is not None
        and before.live is not None
        and view.wanted < before.live
        and view.instead_of != before.live
    )


def scaler_owns_replicas(workload: Mapping[str, Any]) -> bool:
    """Whether managedFields show the scaler as an owner of ``spec.replicas``."""
    return SCALER_MANAGER in replica_owners(workload)


def replica_owners(workload: Mapping[str, Any]) -> frozenset[str]:
    """The field managers that own ``spec.replicas`` of a workload."""
    entries: Iterable[Mapping[str, Any]] = (workload.get("metadata") or {}).get("managedFields") or []
    return frozenset(
        str(entry.get("manager"))
        for entry in entries
        if "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    )


def needs_scaling(workload: Mapping[str, Any], wanted: int) -> bool:
    """Whether the scaler has to apply: the number differs, or the field is not the scaler's yet."""
    return (workload.get("spec") or {}).get("replicas") != wanted or not scaler_owns_replicas(workload)


def scale_manifest(workload: Mapping[str, Any], wanted: int) -> Object:
    """All that the scaler ever applies: the address of that very workload, and its replicas.

    Fewer are asked for only of the workload as it was looked at: a conflict shows that somebody has changed it since.
    """
    metadata = workload["metadata"]
    address = {name: metadata[name] for name in ("name", "namespace", "uid")}
    if wanted < int((workload.get("spec") or {}).get("replicas") or 0):
        address["resourceVersion"] = metadata["resourceVersion"]
    return {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "metadata": address,
        "spec": {"replicas": wanted},
    }


def without_replicas(manifest: Mapping[str, Any]) -> Object:
    """The workload's manifest for the children's manager once the scaler owns the replicas."""
    return {**manifest, "spec": {key: value for key, value in manifest["spec"].items() if key != "replicas"}}


def with_due_replicas(
    manifest: Mapping[str, Any], live: Mapping[str, Any] | None, replicas: int | None
) -> Object:
    """The workload's manifest as the children's manager sends it: with replicas until the scaler owns them.

    Another autoscaler on the workload (``replicas`` is None) keeps its number: what the children's manager owns by
    then it repeats, since leaving it out would reset it to 1.
    """
    if live is not None and scaler_owns_replicas(live):
        return dict(manifest)
    if replicas is not None:
        return _with_replicas(manifest, replicas)
    if live is not None and CHILDREN_MANAGER in replica_owners(live):
        return _with_replicas(manifest, int(live["spec"]["replicas"]))
    return dict(manifest)


def _with_replicas(manifest: Mapping[str, Any], replicas: int) -> Object:
    return {**manifest, "spec": {**manifest["spec"], "replicas": replicas}}


def autoscaler_on(workload_kind: str, workload_name: str, autoscalers: Iterable[Object]) -> str | None:
    """The HorizontalPodAutoscaler that targets the workload itself, as words; KEDA makes one too."""
    for autoscaler in autoscalers:
        target = (autoscaler.get("spec") or {}).get("scaleTargetRef") or {}
        if target.get("kind") == workload_kind and target.get("name") == workload_name:
            return f"HorizontalPodAutoscaler {autoscaler['metadata']['name']}"
    return None


def advised(message: str) -> tuple[Reason, str] | None:
    """Reason and words of a recommendation out of the message of ScalingActive; None where it holds none."""
    found = _ADVICE.search(message)
    if found is None or found[1] not in set(Reason):
        return None
    return Reason(found[1]), found[2]


def _advice(view: ScalingView | None) -> str:
    if view is None:
        return "the tier was not measured yet"
    return f"{_number(view.recommended)} recommended, {view.reason}: {view.message}"


def _replicas(count: int) -> str:
    return "1 replica is" if count == 1 else f"{count} replicas are"


def _number(count: int | None) -> str:
    return "nothing is" if count is None else _replicas(count)
