"""A tier in a store whose pods answer with pages of a simple queueing model, and the autoscaler in front of it, in made-up time."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry

from tests.support.played_engines import Engine
from tests.unit.control.pods import condition
from tierwright.api.tier import InferenceTier
from tierwright.capacity.state import TierState, dump, load
from tierwright.control import scaler
from tierwright.control.autoscale import Autoscaler
from tierwright.control.autoscale_state import Kept, Learned
from tierwright.control.autoscale_tier import Memory
from tierwright.control.decision_words import SCALING_REASONS
from tierwright.control.kinds import INFERENCE_TIER
from tierwright.control.pools import Pools
from tierwright.control.tier_settings import LoopTiming
from tierwright.desired.labels import TIER_LABEL
from tierwright.desired.names import label_value
from tierwright.kube.errors import KubeError
from tierwright.kube.resources import DEPLOYMENT, POD
from tierwright.observe.metrics import FaultKind, parse
from tierwright.observe.readings import Scraped, ScrapeFault, Target
from tierwright.observe.scrape import Scraper
from tierwright.observe.snapshot import ScalingView
from tierwright.observe.store import Store
from tierwright.telemetry.autoscaling import AutoscalingMetrics

Object = dict[str, Any]
NAMESPACE, NAME = "serving", "llama-fast"
KEY = (NAMESPACE, NAME)
TICK = 10.0
SCALING = {
    "mode": "Auto",
    "minReplicas": 1,
    "maxReplicas": 8,
    "objectives": {"timeToFirstToken": "500ms", "timePerOutputToken": "50ms"},
    "attainment": "0.95",
    "coldStart": "60s",
    "scaleDown": {"stabilization": "5m"},
}


def rfc3339(seconds: float) -> str:
    """As Kubernetes writes a time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class InMemory:
    """States that outlive an autoscaler, as text, by the tier's uid."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, str, float]] = {}
        self.writes: list[float] = []
        self.error: KubeError | None = None
        """What asking for a state is answered with."""

    async def load(self, tier: InferenceTier) -> Learned | None:
        """What was saved under the tier's uid."""
        if self.error is not None:
            raise self.error
        found = self.kept.get(str(tier.metadata.uid))
        state = load(found[0]) if found is not None else None
        if found is None or state is None:
            return None
        return Learned(state, found[1], found[2])

    async def save(self, tier: InferenceTier, memory: Memory, now: float) -> Kept:
        """Keep it."""
        self.kept[str(tier.metadata.uid)] = (dump(memory.state), memory.heard, now)
        self.writes.append(now)
        return Kept(True, str(len(self.writes)))


@dataclass
class Fleet:
    """The tier, its pods, and the time; requests are shared evenly among ready pods."""

    scaling: Object = field(default_factory=lambda: dict(SCALING))
    start_seconds: float = 60.0
    now: float = 1_800_000_000.0
    uid: str = "u-1"
    annotations: dict[str, str] = field(default_factory=dict)
    read_every: float = 0.0
    """Seconds between two samples of a pod in a server that stands between the pods and the autoscaler; each pod has its own turn."""

    def __post_init__(self) -> None:
        """One replica, ready."""
        self.states = InMemory()
        self.replicas = 1
        self.engines: list[Engine] = []
        self.silent: set[str] = set()
        """Uids of pods whose page cannot be read."""
        self._taken: dict[str, Scraped] = {}
        self.status: Object = {}
        self.history: list[int] = []
        self.changes: list[ScalingView | None] = []
        self._version = 0
        self._pods = 0
        self.registry = CollectorRegistry()
        self.store = Store(INFERENCE_TIER, label_value, TIER_LABEL)
        self.put_tier()
        self.put_workload()
        self._start_pods(ready_at=self.now - 3600)
        self.restart()

    def restart(self) -> None:
        """Another process: whatever was only in memory is lost."""
        self.registry = CollectorRegistry()
        metrics = AutoscalingMetrics(
            self.registry, reasons=sorted(SCALING_REASONS), causes=list(ScrapeFault), faults=list(FaultKind)
        )
        self.autoscaler = Autoscaler(
            self.store,
            self.states,
            Pools(self.store),
            metrics,
            lambda keys: self.changes.extend(self.view for _ in keys),
            make_scraper=_never,
            timing=LoopTiming(tick=TICK),
            clock=lambda: self.now,
        )

    @property
    def view(self) -> ScalingView | None:
        """What the autoscaler says."""
        return self.autoscaler.view(KEY, self.uid)

    @property
    def tier(self) -> InferenceTier:
        """The tier as the operator reads it."""
        return InferenceTier.model_validate(self._tier_object())

    def state(self) -> TierState:
        """What was learned."""
        return self.autoscaler._memories[KEY].state

    def run(self, seconds: float, rate: float) -> None:
        """Let time pass with so many requests per second."""
        asyncio.run(self._run(seconds, rate))

    async def _run(self, seconds: float, rate: float) -> None:
        for _ in range(round(seconds / TICK)):
            await self.tick(rate)

    async def tick(self, rate: float) -> None:
        """One tick: requests come, pods get ready, the autoscaler looks, and its number is applied as the reconciler would."""
        self.now += TICK
        ready = [each for each in self.engines if each.ready_at <= self.now]
        for each in ready:
            each.serve(rate / len(ready), TICK)
        self._put_pods()
        await self.autoscaler.tick(self)
        await self.autoscaler.write_due()
        self._apply()
        self.history.append(self.replicas)

    async def read(self, targets: Iterable[Target]) -> Mapping[str, Scraped]:
        """The pages of the engines, or none."""
        by_uid = {each.uid: each for each in self.engines}
        late = Scraped(self.now, None, ScrapeFault.TIMED_OUT, "no whole page within 3 s")
        return {
            each.uid: late if each.uid in self.silent else self._page(by_uid[each.uid]) for each in targets
        }

    def _page(self, engine: Engine) -> Scraped:
        """The newest page that was taken of the engine."""
        turn = self.now + TICK * int(engine.uid.removeprefix("pod-"))
        if engine.uid not in self._taken or self.read_every == 0 or turn % self.read_every < TICK:
            self._taken[engine.uid] = Scraped(self.now, parse(engine.text()))
        taken = self._taken[engine.uid]
        return replace(taken, age=self.now - taken.at)

    def _apply(self) -> None:
        wanted = scaler.decide(self.tier, scaler.Held(live=self.replicas), None, self.view).wanted
        assert wanted is not None
        self.replicas = wanted
        self.put_workload()
        while len(self.engines) > wanted:
            gone = max(self.engines, key=lambda each: (each.ready_at, each.created))
            self.engines.remove(gone)
            self.store.delete(POD, self._pod(gone))
        self._start_pods(ready_at=self.now + self.start_seconds)

    def _start_pods(self, ready_at: float) -> None:
        while len(self.engines) < self.replicas:
            self._pods += 1
            created = min(self.now, ready_at - self.start_seconds)
            self.engines.append(Engine(f"pod-{self._pods}", created, ready_at))
        self._put_pods()

    def _put_pods(self) -> None:
        for each in self.engines:
            self.store.put(POD, self._pod(each))

    def put_tier(self) -> None:
        """As it is now."""
        self.store.put(INFERENCE_TIER, self._tier_object())

    def put_workload(self) -> None:
        """As it is now."""
        self.store.put(
            DEPLOYMENT,
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {
                    **self._metadata(NAME, "d-1"),
                    "ownerReferences": [
                        {"kind": "InferenceTier", "name": NAME, "uid": self.uid, "controller": True}
                    ],
                },
                "spec": {"replicas": self.replicas},
            },
        )

    def _metadata(self, name: str, uid: str) -> Object:
        self._version += 1
        return {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid,
            "resourceVersion": str(self._version),
            "labels": {TIER_LABEL: label_value(NAME)},
        }

    def _tier_object(self) -> Object:
        return {
            "apiVersion": "tierwright.dev/v1alpha1",
            "kind": "InferenceTier",
            "metadata": {
                **self._metadata(NAME, self.uid),
                "generation": 1,
                "annotations": dict(self.annotations),
            },
            "spec": {
                "model": {"name": "meta/llama", "source": "hf://meta-llama/Llama@main"},
                "speed": "fast",
                "engine": {"type": "vllm"},
                "hardware": {"accelerator": "nvidia", "count": 1},
                "scaling": self.scaling,
            },
            "status": self.status,
        }

    def _pod(self, engine: Engine) -> Object:
        ready = engine.ready_at <= self.now
        since = rfc3339(engine.ready_at if ready else engine.created)
        return {
            "metadata": {
                **self._metadata(engine.uid, engine.uid),
                "creationTimestamp": rfc3339(engine.created),
            },
            "spec": {"nodeName": "node-1"},
            "status": {
                "phase": "Running",
                "podIP": "127.0.0.1",
                "conditions": [
                    condition("PodScheduled", "True", since=rfc3339(engine.created)),
                    condition("Ready", "True" if ready else "False", since=since),
                ],
            },
        }


def status_of(view: ScalingView) -> Object:
    """The part of a tier's status that an operator wrote from this view."""
    return {
        "desiredReplicas": view.wanted,
        "recommendedReplicas": view.recommended,
        "conditions": [
            {
                "type": "ScalingActive",
                "status": "True" if view.follows_load else "False",
                "reason": view.reason,
                "message": view.message,
                "lastTransitionTime": rfc3339(0.0),
                "observedGeneration": 1,
            }
        ],
    }


def _never() -> Scraper:
    raise NotImplementedError
