"""A tier tells the least that its ready pods measured of their answers' exactness, with and without objectives; each is asked once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.unit.control.fleet import KEY, SCALING, Fleet
from tests.unit.control.pods import ready_pod, snapshot, status_of, tier
from tierwright.api.status import ExactnessStatus, TierStatus
from tierwright.control.exactness import least
from tierwright.control.scaling_source import NothingMeasured
from tierwright.observe.metrics import Exactness
from tierwright.observe.readings import Scraped, Target
from tierwright.observe.snapshot import ExactnessView, Snapshot

EXACT = Exactness(row_exact=True, agreement=1.0)
NEAR = Exactness(row_exact=False, agreement=0.985)
BENT = Exactness(row_exact=True, agreement=1.0, lossy="entropy<=0.5")


@dataclass
class Worker(Fleet):
    """Pods of the JAX worker, each of which tells what `tells` says; without objectives unless `scaling` has them."""

    engine: str = "jax"
    tells: Exactness | None = EXACT

    def __post_init__(self) -> None:
        self.asked: list[str] = []
        super().__post_init__()

    def _tier_object(self) -> dict[str, Any]:
        obj = super()._tier_object()
        return {**obj, "spec": {**obj["spec"], "engine": {"type": self.engine}}}

    async def read(self, targets: Iterable[Target]) -> Mapping[str, Scraped]:
        wanted = list(targets)
        self.asked += [each.uid for each in wanted]
        pages = await super().read(wanted)
        return {
            uid: replace(each, page=replace(each.page, exactness=self.tells)) if each.page else each
            for uid, each in pages.items()
        }

    async def look(self) -> None:
        """One tick, in which no replica comes or goes."""
        self.now += 10
        self._put_pods()
        await self.autoscaler.tick(self)

    def more_pods(self, replicas: int) -> None:
        """So many pods, all ready."""
        self.replicas = replicas
        self.put_workload()
        self._start_pods(ready_at=self.now - 60)

    def told(self) -> ExactnessView | None:
        """What is told of the tier."""
        return self.autoscaler.exactness(KEY, self.uid)


async def test_a_tier_without_objectives_asks_each_pod_until_it_told_once_and_no_more() -> None:
    fleet = Worker(scaling={"mode": "Manual"})
    fleet.silent = {"pod-1"}
    await fleet.look()
    assert fleet.told() is None
    fleet.silent = set()
    for _ in range(3):
        await fleet.look()
    assert fleet.told() == ExactnessView(row_exact=True, agreement="100%")
    assert fleet.asked == ["pod-1"] * 2
    assert fleet.changes == [None], "one reconcile is asked for, when it came to be known"
    fleet.more_pods(2)
    fleet.tells = NEAR
    for _ in range(3):
        await fleet.look()
    assert fleet.asked == ["pod-1"] * 2 + ["pod-2"]
    assert fleet.told() == ExactnessView(row_exact=False, agreement="98.5%")


async def test_a_tier_with_objectives_tells_it_from_the_pages_that_are_read_anyway() -> None:
    fleet = Worker(scaling=dict(SCALING))
    await fleet.look()
    assert fleet.told() == ExactnessView(row_exact=True, agreement="100%")
    fleet.tells = NEAR
    await fleet.look()
    assert fleet.told() == ExactnessView(row_exact=False, agreement="98.5%")
    assert fleet.asked == ["pod-1"] * 2


async def test_what_was_told_stays_while_no_pod_is_ready() -> None:
    fleet = Worker(scaling={"mode": "Manual"})
    await fleet.look()
    fleet.engines[0].ready_at = fleet.now + 1000
    await fleet.look()
    assert fleet.told() == ExactnessView(row_exact=True, agreement="100%")


async def test_an_engine_that_does_not_tell_is_not_asked_again_and_another_engine_never() -> None:
    old = Worker(scaling={"mode": "Manual"}, tells=None)
    other = Worker(scaling={"mode": "Manual"}, engine="vllm")
    for fleet in (old, other):
        await fleet.look()
        await fleet.look()
        assert fleet.told() is None
    assert old.asked == ["pod-1"]
    assert other.asked == []


async def test_another_tier_of_the_same_name_begins_anew() -> None:
    fleet = Worker(scaling={"mode": "Manual"})
    await fleet.look()
    assert fleet.autoscaler.exactness(KEY, "u-2") is None
    fleet.uid = "u-2"
    fleet.tells = NEAR
    fleet.put_tier()
    fleet.put_workload()
    await fleet.look()
    assert fleet.told() == ExactnessView(row_exact=False, agreement="98.5%")


def test_the_least_of_the_pods_is_told() -> None:
    assert least([]) is None
    assert least([EXACT, NEAR]) == ExactnessView(row_exact=False, agreement="98.5%")
    assert least([EXACT, BENT]) == ExactnessView(row_exact=True, agreement="100%", lossy="entropy<=0.5")
    # Rounded down: what is told is never better than what was measured.
    assert least([Exactness(row_exact=False, agreement=0.99999)]) == ExactnessView(False, "99.99%")
    assert NothingMeasured().exactness(KEY, "u-1") is None


def seen(view: ExactnessView | None, engine: str = "jax") -> Snapshot:
    """A tier with a ready pod."""
    found = snapshot(ready_pod("a"), of=tier(engine={"type": engine}))
    return replace(found, exactness=view)


def test_the_status_tells_which_holds() -> None:
    exact = status_of(seen(ExactnessView(row_exact=True, agreement="100%")))
    assert exact.exactness == ExactnessStatus(row_exact=True, agreement="100%")
    assert exact.exactness is not None
    wire = exact.exactness.model_dump(by_alias=True, exclude_none=True)
    assert wire == {"rowExact": True, "agreement": "100%"}
    bent = status_of(seen(ExactnessView(row_exact=False, agreement="98.5%", lossy="x" * 200)))
    assert bent.exactness == ExactnessStatus(row_exact=False, agreement="98.5%", lossy="x" * 128)


def test_a_restart_of_the_operator_keeps_what_was_told_and_another_engine_tells_nothing() -> None:
    before = status_of(seen(ExactnessView(row_exact=True, agreement="100%")))
    assert status_of(seen(None), before) == before
    assert status_of(seen(None, "vllm"), before).exactness is None
    assert status_of(replace(seen(None), tier=None), before).exactness == before.exactness


def test_nothing_is_told_before_a_pod_did() -> None:
    assert status_of(seen(None), TierStatus()).exactness is None
