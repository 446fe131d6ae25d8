"""Applies the children of one tier that differ from what is desired, and prunes those that are no longer wanted.

The store may lag behind, so it only says that nothing is to be done. Before a write the object is read by name, and
the plan is made again from what was read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tierwright.api.conditions import Reason
from tierwright.control import scaler
from tierwright.control.apply_plan import (
    APPLIED_HASH_ANNOTATION,
    Action,
    Owner,
    is_prunable,
    plan_child,
    stamped,
)
from tierwright.control.attempts import Attempts, Patience
from tierwright.control.containment import differences
from tierwright.control.kinds import CHILDREN
from tierwright.control.one_of import displacing_patch
from tierwright.control.problems import fought_over, not_corrected, problem_of
from tierwright.desired.bundle import Bundle
from tierwright.kube.errors import ApiError, KubeError, Verdict
from tierwright.kube.resources import JOB, PVC, SERVICE_ACCOUNT, Object, ObjectRef, ref_of
from tierwright.kube.verbs import KubeClient
from tierwright.observe.managers import CHILDREN_MANAGER
from tierwright.observe.snapshot import Problem
from tierwright.observe.store import Store
from tierwright.telemetry.metrics import Metrics

_CONFLICT_STATUS: Final = 409
_INVALID_STATUS: Final = 422


@dataclass
class Applied:
    """What came of applying the children of one tier."""

    workload: Object | None = None
    """The live workload, when it is this tier's and nothing stands in the way of scaling it."""
    problems: list[Problem] = field(default_factory=list)
    waiting_for: list[str] = field(default_factory=list)
    foreign: set[ObjectRef] = field(default_factory=set)
    """Objects of a child's name that are somebody else's."""
    error: KubeError | None = None
    """The last error that may pass."""

    @property
    def is_complete(self) -> bool:
        """Whether every child is as desired."""
        return not self.problems and not self.waiting_for and self.error is None

    def note(self, ref: ObjectRef, error: KubeError) -> None:
        """Takes in an error; a conflict alone is not worth telling, the next try settles it."""
        passing = error.verdict is Verdict.RETRY
        if passing:
            self.error = error
        if not (passing and isinstance(error, ApiError) and error.status == _CONFLICT_STATUS):
            self.problems.append(problem_of(ref, error))


@dataclass(frozen=True)
class _Task:
    """One child to bring about: its address, its stamped manifest, and the replicas that are due if it is the workload."""

    ref: ObjectRef
    desired: Object
    is_workload: bool
    replicas: int | None
    now: datetime

    @property
    def digest(self) -> str:
        """Changes with any field of the manifest."""
        return str(self.desired["metadata"]["annotations"][APPLIED_HASH_ANNOTATION])


class ChildApplier:
    """Brings children to what is desired."""

    def __init__(self, client: KubeClient, store: Store, metrics: Metrics, patience: Patience) -> None:
        self._client = client
        self._metrics = metrics
        self._store = store
        self._patience = patience

    async def apply(
        self, bundle: Bundle, owner: Owner, replicas: int | None, attempts: Attempts, now: datetime
    ) -> Applied:
        """Applies every child that differs; one child's failure does not keep the others from being applied.

        The workload alone is left as it is while its pods would use an object that is somebody else's: they would
        write to another's volume, or act under another's identity.

        ``replicas`` is sent with the workload until the scaler owns the field; None sends none.
        """
        applied = Applied()
        for manifest, is_workload, left_alone in _manifests(bundle):
            due = replicas if is_workload else None
            task = _Task(ref_of(manifest), stamped(manifest), is_workload, due, now)
            if left_alone:
                if is_workload:
                    applied.workload = self._ours(task, owner)
                    applied.waiting_for.append(f"Job {bundle.compile_job} (it fills the compile volume)")
                continue
            if is_workload and (used := _used_by_pods(manifest) & applied.foreign):
                applied.problems.append(_held_back(task.ref, used))
                continue
            live = await self._apply_child(task, owner, attempts, applied)
            if is_workload:
                applied.workload = live
        return applied

    def all_settled(self, bundle: Bundle, owner: Owner) -> bool:
        """Whether every child is as desired, as far as the store knows."""
        return all(
            plan_child(stamped(manifest), self._store.get(ref_of(manifest)), owner).action is Action.NOTHING
            for manifest, _, left_alone in _manifests(bundle)
            if not left_alone
        )

    async def prune(
        self,
        namespace: str,
        tier_name: str,
        bundle: Bundle,
        owner: Owner,
        applied: Applied,
        attempts: Attempts,
        now: datetime,
    ) -> None:
        """Deletes children of this tier that the bundle no longer holds, once all others are as desired.

        A Job goes at once: it holds devices and volumes for programs that nobody needs any more.
        """
        complete = applied.is_complete
        wanted = {ref_of(child.manifest) for child in bundle.children}
        for live in self._store.children_of(namespace, tier_name):
            ref = ref_of(live)
            if ref.kind not in CHILDREN or ref in wanted or not is_prunable(live, owner):
                continue
            if not complete and ref.kind != JOB:
                continue
            uid = str(live["metadata"]["uid"])
            if refusal := attempts.standing_refusal(ref, uid, now - self._patience.refused):
                applied.problems.append(refusal)
                continue
            try:
                await self._client.delete(ref, uid=uid)
            except KubeError as error:
                applied.note(ref, error)
                if error.verdict is not Verdict.RETRY:
                    attempts.refused(ref, uid, problem_of(ref, error), now, final=False)

    def _ours(self, task: _Task, owner: Owner) -> Object | None:
        """The live child as the store knows it, when it is this tier's and may be scaled."""
        stored = self._store.get(task.ref)
        usable = (Action.NOTHING, Action.APPLY, Action.ADOPT)
        return stored if plan_child(task.desired, stored, owner).action in usable else None

    async def _apply_child(
        self, task: _Task, owner: Owner, attempts: Attempts, applied: Applied
    ) -> Object | None:
        """The live child when it is ours and usable."""
        ref = task.ref
        stored = self._store.get(ref)
        first = plan_child(task.desired, stored, owner).action
        if first is Action.NOTHING:
            attempts.settled(ref)
            return stored
        # A workload of ours whose new template is refused can still be scaled.
        usable = stored if first is Action.APPLY else None
        refusal = attempts.standing_refusal(ref, task.digest, task.now - self._patience.refused)
        if refusal is not None:
            applied.problems.append(refusal)
            return usable
        try:
            live = await self._carry_out(task, owner, attempts, applied)
        except KubeError as error:
            self._metrics.applies.labels(ref.kind.kind, "failed").inc()
            if error.verdict is Verdict.RETRY:
                applied.note(ref, error)
                return None
            problem = problem_of(ref, error)
            attempts.refused(ref, task.digest, problem, task.now, final=error.verdict is Verdict.TERMINAL)
            applied.problems.append(problem)
            return usable
        attempts.refusals.pop(ref, None)
        return live

    async def _carry_out(
        self, task: _Task, owner: Owner, attempts: Attempts, applied: Applied
    ) -> Object | None:
        """Reads the child by name, plans again, and applies when the plan says so."""
        ref = task.ref
        live = await self._client.get(ref)
        if live is not None:
            self._store.put(ref.kind, live)
        plan = plan_child(task.desired, live, owner)
        if plan.action is Action.FOREIGN:
            words = f"{ref.kind.kind} {ref.name} is not touched: {plan.why}"
            applied.problems.append(Problem(Reason.CONFLICT, words))
            applied.foreign.add(ref)
            return None
        if plan.action in (Action.WAIT_FOR_OLD_OWNER, Action.WAIT_FOR_DELETION):
            applied.waiting_for.append(f"{ref.kind.kind} {ref.name} ({plan.why})")
            return None
        if not plan.action.writes:
            return live
        if attempts.is_changed_back(ref, task.digest, plan.differing, task.now - self._patience.uncorrected):
            applied.problems.append(not_corrected(ref, plan.differing))
            return live
        oldest = task.now - self._patience.refused
        if plan.action is Action.APPLY and attempts.is_fought_over(ref, task.digest, oldest):
            applied.problems.append(fought_over(ref, plan.differing))
            return live
        if plan.is_drift:
            self._metrics.drift.labels(ref.kind.kind).inc()
        desired = (
            scaler.with_due_replicas(task.desired, live, task.replicas) if task.is_workload else task.desired
        )
        live = await self._send(ref, desired, live, plan.uid)
        self._metrics.applies.labels(ref.kind.kind, plan.action.lower()).inc()
        self._store.put(ref.kind, live)
        left = differences(desired, live)
        attempts.accepted(ref, task.digest, left, task.now)
        if left:
            applied.problems.append(not_corrected(ref, left))
        return live

    async def _send(self, ref: ObjectRef, desired: Object, live: Object | None, uid: str | None) -> Object:
        """Applies the manifest to that very object; a field that shuts ours out is taken away first."""
        manifest = _for_that_very_object(desired, uid)
        try:
            return await self._client.apply(manifest, manager=CHILDREN_MANAGER)
        except ApiError as error:
            patch = displacing_patch(desired, live) if live is not None else None
            if error.status != _INVALID_STATUS or patch is None:
                raise
        body = {**patch, "metadata": {"uid": uid}}
        await self._client.patch(ref, body, manager=CHILDREN_MANAGER)
        return await self._client.apply(manifest, manager=CHILDREN_MANAGER)


def _manifests(bundle: Bundle) -> Iterator[tuple[Object, bool, bool]]:
    """What is compared and applied of each child, whether it is the workload (that one without its replicas), and
    whether it is left alone."""
    for child in bundle.children:
        manifest = child.manifest
        is_workload = (manifest["kind"], manifest["metadata"]["name"]) == bundle.workload
        compared = scaler.without_replicas(manifest) if is_workload else manifest
        yield compared, is_workload, child.left_alone


def _used_by_pods(workload: Object) -> set[ObjectRef]:
    """The claims that the workload's pods mount, and their ServiceAccount."""
    namespace, pod = workload["metadata"]["namespace"], workload["spec"]["template"]["spec"]
    claims = {
        ObjectRef(PVC, namespace, volume["persistentVolumeClaim"]["claimName"])
        for volume in pod.get("volumes") or ()
        if volume.get("persistentVolumeClaim")
    }
    return claims | {ObjectRef(SERVICE_ACCOUNT, namespace, str(pod.get("serviceAccountName")))}


def _held_back(workload: ObjectRef, used: set[ObjectRef]) -> Problem:
    names = ", ".join(sorted(f"{ref.kind.kind} {ref.name}" for ref in used))
    return Problem(
        Reason.CONFLICT,
        f"{workload.kind.kind} {workload.name} is held back: its pods would use {names}, which is not this tier's",
    )


def _for_that_very_object(manifest: Object, uid: str | None) -> Object:
    """With the uid of the object that was read, the server answers 409 when it is gone or another by now."""
    return manifest if uid is None else {**manifest, "metadata": {**manifest["metadata"], "uid": uid}}
