"""Brings one tier from what its spec says to running children and a truthful status; read top down.

Level-triggered: the same function runs whatever happened, decides by the store alone, and costs nothing when all is
settled. A tier that is being deleted is never reconciled forward: its children belong to the garbage collector.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tierwright.api.conditions import Reason
from tierwright.api.status import TierStatus
from tierwright.api.tier import InferenceTier
from tierwright.control import scaler
from tierwright.control.apply_plan import Owner
from tierwright.control.attempts import Attempts, Patience
from tierwright.control.children import Applied, ChildApplier
from tierwright.control.compiling import compile_facts, refused_jobs
from tierwright.control.conflicts import served
from tierwright.control.freeze import Findings, freeze
from tierwright.control.intake import Intake, take_in
from tierwright.control.live_objects import stored_workload, uids_with_workload
from tierwright.control.outcome import Done, Failed, Outcome, RequeueAfter
from tierwright.control.scale_writer import ScaleWriter
from tierwright.control.scaling_source import NothingMeasured, ScalingSource
from tierwright.control.status.compute import compute_status
from tierwright.control.status.transitions import transitions
from tierwright.control.status_writer import StatusWriter, stored_status
from tierwright.control.victim_writer import VictimWriter
from tierwright.desired.bundle import (
    Bundle,
    BundleContext,
    CompileStep,
    Refusal,
    desired_bundle,
    pinned_engine,
)
from tierwright.desired.names import label_value
from tierwright.engines.engine import WORKER_REPOSITORY
from tierwright.kube.errors import ApiError, KubeError, Verdict
from tierwright.kube.events import EventRecorder
from tierwright.kube.resources import HPA, JOB, Object, ObjectRef, ref_of
from tierwright.kube.verbs import KubeClient
from tierwright.observe.snapshot import Facts, Finding, ScaleView, Stage
from tierwright.observe.store import Store, TierKey
from tierwright.telemetry.metrics import Metrics

_GONE = 404
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReconcileSettings:
    """How long to wait for what sends no event. An apply that was refused is repeated at the next resync.

    The waits for a deletion and for stuck pods are the first ones: they grow up to a resync while nothing happens.
    """

    resync: timedelta = timedelta(minutes=5)
    wait_for_news: timedelta = timedelta(milliseconds=200)
    wait_for_deletion: timedelta = timedelta(seconds=5)
    look_again_at_stuck_pods: timedelta = timedelta(seconds=30)
    look_again_at_young_pods: timedelta = timedelta(seconds=6)
    worker_repository: str = WORKER_REPOSITORY
    """Not a wait: where the default images of the project's own worker lie."""

    @property
    def patience(self) -> Patience:
        """A refused apply waits a little less than a resync, whose tiers come earlier or later each time.

        A field that something changes back is tried again after a dozen resyncs, an hour: often enough to see that
        the policy has gone, too seldom to be a fight.
        """
        return Patience(refused=self.resync * 0.8, uncorrected=self.resync * 12)


@dataclass
class _Memory:
    """What is kept of one tier between two reconciles."""

    uid: str
    children: Attempts = field(default_factory=Attempts)
    scale: Attempts = field(default_factory=Attempts)


@dataclass
class _Work:
    """What one reconcile did and learned, before it is frozen."""

    applied: Applied = field(default_factory=Applied)
    scale: ScaleView | None = None
    facts: Facts | None = None
    compile: CompileStep | None = None
    has_stuck_pods: bool = False
    has_young_pods: bool = False
    job_refused: bool = False
    """The workload waits for a Job that the API server refuses; it does not have to."""
    was_edited: bool = False
    """The tier asks for something else by now."""


class Reconciler:
    """Reconciles tiers; ``now`` gives aware times in UTC."""

    def __init__(
        self,
        client: KubeClient,
        store: Store,
        recorder: EventRecorder,
        now: Callable[[], datetime],
        *,
        metrics: Metrics,
        settings: ReconcileSettings | None = None,
        on_news: Callable[[set[TierKey]], None] = lambda _: None,
        scaling: ScalingSource | None = None,
    ) -> None:
        """``on_news`` gets other tiers that must be looked at, since the one at hand says something else by now.

        ``scaling`` says what the autoscaler wants; without it tiers in mode Auto keep what they have.
        """
        self._client = client
        self._metrics = metrics
        self._store = store
        self._now = now
        self._settings = settings or ReconcileSettings()
        patience = self._settings.patience
        self._children = ChildApplier(client, store, metrics, patience)
        self._scale = ScaleWriter(client, store, patience)
        self._status = StatusWriter(client, store, recorder, patience)
        self._victims = VictimWriter(client, store)
        self._scaling: ScalingSource = scaling or NothingMeasured()
        self._on_news = on_news
        self._memories: dict[TierKey, _Memory] = {}

    async def reconcile(self, key: TierKey) -> Outcome:
        """One pass over one tier; what it says about the tier stands in the status, what it wants next in the outcome."""
        obj = self._store.tier(*key)
        if obj is None:
            self._forget(key)
            return Done()
        intake, bundle = self._take_in(key, obj)
        work = _Work() if bundle is None else _Work(facts=_facts(bundle), compile=bundle.compile)
        if intake.stage is Stage.ACTIVE and intake.tier is not None and bundle is not None:
            work.scale = self._decide_scale(key, obj, intake.tier, bundle)
            if not await self._bring_forward(key, obj, bundle, work):
                return RequeueAfter(self._settings.wait_for_news.total_seconds())
        return await self._report(key, obj, intake, work)

    def _take_in(self, key: TierKey, obj: Object) -> tuple[Intake, Bundle | None]:
        """What the tier asks for, and its children; none where it is refused, deleted or in conflict."""
        rivals = self._rivals(obj)
        intake = take_in(obj, rivals, uids_with_workload(self._store, rivals))
        if intake.tier is None or intake.stage not in (Stage.ACTIVE, Stage.PAUSED):
            return intake, None
        workload = self._stored_workload(key, obj)
        uid = obj["metadata"]["uid"]
        memory = self._memories.get(key)
        refused = refused_jobs(memory.children if memory is not None and memory.uid == uid else None)
        facts = compile_facts(workload, self._jobs(key), self._store.pods_of(*key), uid, refused)
        context = BundleContext(pinned_engine(workload), facts, self._settings.worker_repository)
        bundle = desired_bundle(intake.tier, context)
        if isinstance(bundle, Refusal):
            words = Finding(bundle.reason, f"{bundle.path}: {bundle.message}")
            return replace(intake, stage=Stage.REFUSED, refusal=words), None
        return intake, bundle

    async def _bring_forward(self, key: TierKey, obj: Object, bundle: Bundle, work: _Work) -> bool:
        """Applies what differs, sets the replicas, prunes what is no longer wanted.

        False when the tier is not what the store says, and nothing was written: news of it is on its way.
        """
        owner = Owner(obj["metadata"]["uid"], label_value(key[1]))
        try:
            if not self._children.all_settled(bundle, owner) and not await self._is_current(obj):
                return False
        except KubeError as error:  # what keeps us from reading the tier is said in its status too
            work.applied.note(ref_of(obj, self._store.tier_kind), error)
            return True
        memory, now = self._memory(key, owner.uid), self._now()
        replicas = work.scale.wanted if work.scale is not None else None
        work.applied = await self._children.apply(bundle, owner, replicas, memory.children, now)
        work.job_refused = bundle.waits and bundle.compile_job in refused_jobs(memory.children)
        await self._mark_victims(key, work.applied, replicas)
        await self._scale.write(work.applied, work.scale, memory.scale, now)
        await self._children.prune(*key, bundle, owner, work.applied, memory.children, now)
        memory.children.keep_only(self._refs_in_play(key, bundle))
        return True

    async def _mark_victims(self, key: TierKey, applied: Applied, wanted: int | None) -> None:
        """Before fewer replicas are asked for: says which shall go."""
        live = applied.workload
        if wanted and live is not None and wanted < int((live.get("spec") or {}).get("replicas") or 0):
            await self._victims.mark(key, wanted, self._scaling.requests(key))

    def _refs_in_play(self, key: TierKey, bundle: Bundle) -> set[ObjectRef]:
        """The children that are wanted or there, and the Job that may have been refused."""
        wanted = {ref_of(child.manifest) for child in bundle.children}
        live = {ref_of(child) for child in self._store.children_of(*key)}
        return wanted | live | {ObjectRef(JOB, key[0], bundle.compile_job)}

    async def _report(self, key: TierKey, obj: Object, intake: Intake, work: _Work) -> Outcome:
        """Writes what is to be said of the tier, and says when to look again."""
        uid = obj["metadata"]["uid"]
        view, exactness = self._scaling.view(key, uid), self._scaling.exactness(key, uid)
        findings = Findings(intake, work.applied, work.scale, view, exactness, work.facts, work.compile)
        frozen = await freeze(self._client, self._store, key, obj, findings, self._now())
        work.has_stuck_pods, work.has_young_pods = frozen.has_stuck_pods, frozen.has_young_pods
        snapshot = frozen.snapshot
        before, now = stored_status(obj), self._now()
        after = compute_status(snapshot, before, now)
        self._publish(key, after, work)
        try:
            ends = any(problem.namespace_ends for problem in work.applied.problems)
            told = () if ends else transitions(before, after, snapshot.additions)
            news = await self._status.write(obj, after, now, told)
        except KubeError as error:
            return self._status_not_written(error, work)
        self._on_news(news - {key})
        # What the store learns from an answer of the server is no news any more when the watch tells it.
        work.was_edited = not self._asks_the_same(obj)
        return self._outcome(intake, work)

    async def _is_current(self, obj: Object) -> bool:
        """Whether the tier still is what the store says, asked before anything is written.

        News of a child that the collector took may arrive before the news that its tier is being deleted.
        """
        kind = self._store.tier_kind
        live = await self._client.get(ref_of(obj, kind))
        if live is None or live["metadata"]["uid"] != obj["metadata"]["uid"]:
            # Left for the watch to tell: others may wait for the end of this tier, and hear of it from the store.
            return False
        self._store.put(kind, live)
        return self._asks_the_same(obj)

    def _asks_the_same(self, obj: Object) -> bool:
        """Whether the store still knows the tier as it was, but for its status; a pause is an annotation."""
        known = self._store.get(ref_of(obj, self._store.tier_kind))
        fields = ("generation", "deletionTimestamp", "annotations")
        return known is not None and all(
            known["metadata"].get(field) == obj["metadata"].get(field) for field in fields
        )

    def _decide_scale(self, key: TierKey, obj: Object, tier: InferenceTier, bundle: Bundle) -> ScaleView:
        """How many replicas are wanted, and who says so."""
        rival = scaler.autoscaler_on(*bundle.workload, self._store.all_of(HPA, key[0]))
        held = scaler.held(self._stored_workload(key, obj), stored_status(obj))
        return scaler.decide(tier, held, rival, self._scaling.view(key, obj["metadata"]["uid"]))

    def _outcome(self, intake: Intake, work: _Work) -> Outcome:
        applied, settings = work.applied, self._settings
        if applied.error is not None:
            return Failed(applied.error, applied.error.retry_after)
        soon = [
            (work.was_edited or work.job_refused, settings.wait_for_news),
            (work.has_young_pods, settings.look_again_at_young_pods),
        ]
        later = [
            (bool(applied.waiting_for), settings.wait_for_deletion),
            (work.has_stuck_pods, settings.look_again_at_stuck_pods),
            (bool(applied.problems), settings.resync),
            (intake.refusal is not None and intake.refusal.reason is Reason.CONFLICT, settings.resync),
        ]
        if due := [wait.total_seconds() for holds, wait in soon if holds]:
            return RequeueAfter(min(due))
        if due := [wait.total_seconds() for holds, wait in later if holds]:
            return RequeueAfter(min(due), at_most=settings.resync.total_seconds())
        return Done()

    def _publish(self, key: TierKey, status: TierStatus, work: _Work) -> None:
        self._metrics.set_conditions(key, [(each.type, each.status) for each in status.conditions])
        for problem in work.applied.problems:
            self._metrics.errors.labels(problem.reason).inc()

    def _status_not_written(self, error: KubeError, work: _Work) -> Outcome:
        if isinstance(error, ApiError) and error.status == _GONE:
            return Done()  # the tier went while we looked at it; its deletion brings the key once more
        _log.warning("the status could not be written: %s", error)
        if work.applied.error is None and error.verdict is not Verdict.RETRY:
            # No hold: the next edit is carried out at once, though it cannot be told before the next resync.
            return RequeueAfter(self._settings.resync.total_seconds())
        return Failed(work.applied.error or error, error.retry_after)

    def _jobs(self, key: TierKey) -> list[Object]:
        return self._store.children_of(*key, JOB)

    def _rivals(self, obj: Object) -> list[Object]:
        claim = served(obj)
        return self._store.same_speed(obj["metadata"]["namespace"], *claim) if claim else []

    def _stored_workload(self, key: TierKey, obj: Object) -> Object | None:
        return stored_workload(self._store, key, obj["metadata"]["uid"])

    def _memory(self, key: TierKey, uid: str) -> _Memory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid:
            self._forget(key)
            memory = self._memories[key] = _Memory(uid)
        return memory

    def _forget(self, key: TierKey) -> None:
        self._memories.pop(key, None)
        self._status.forget(key)


def _facts(bundle: Bundle) -> Facts:
    return Facts(bundle.endpoint, bundle.engine_image, bundle.engine_version, bundle.warnings)
