"""The autoscaler's loop: each tick reads the pods of all tiers, decides for each tier, and tells what changed.

It writes neither replicas nor status: it keeps a view of each tier, which the reconciler reads, and asks for a reconcile
when that view changes. One tier's trouble costs no other anything; a bug costs that tier a tick and what was learned of it.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Protocol

from tierwright.capacity.state import TierState
from tierwright.control.autoscale_report import tick_of
from tierwright.control.autoscale_start import first_memory, recalled
from tierwright.control.autoscale_state import Kept, Learned, States, is_due
from tierwright.control.autoscale_subjects import Subject, TierFinder
from tierwright.control.autoscale_tier import Look, Memory, conclude, decide
from tierwright.control.exactness import ExactnessByTier
from tierwright.control.pools import Pools
from tierwright.control.start_times import SeenNode, seen_nodes
from tierwright.control.tier_settings import LoopTiming
from tierwright.engines.engine import HTTP_PORT
from tierwright.kube.errors import KubeError, Verdict
from tierwright.observe.readings import Scraped, Target
from tierwright.observe.snapshot import ExactnessView, ScalingView
from tierwright.observe.store import Store, TierKey
from tierwright.telemetry.autoscaling import AutoscalingMetrics

log = logging.getLogger(__name__)

LOADS_AT_ONCE: Final = 16
_ASKS_AGAIN: Final = 60.0
"""Seconds until a state is asked for again that the API server refuses to show."""
_LASTS: Final = 30.0
"""Seconds for which a decision is acted on, where three ticks are less."""


class PageReader(Protocol):
    """Whoever reads pods' pages."""

    async def read(self, targets: Iterable[Target]) -> Mapping[str, Scraped]:
        """What came of each target, by its uid."""


MakeSource = Callable[[], AbstractAsyncContextManager[PageReader]]
"""Made inside the running event loop, closed when the loop ends."""


class Autoscaler:
    """Decides for all tiers with objectives, whatever their mode: Manual ones are measured, and nothing more."""

    def __init__(
        self,
        store: Store,
        states: States,
        pools: Pools,
        metrics: AutoscalingMetrics,
        on_change: Callable[[set[TierKey]], None],
        *,
        make_scraper: MakeSource,
        timing: LoopTiming | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``on_change`` gets the tiers whose view changed; ``clock`` gives seconds since 1970."""
        self._store = store
        self._states = states
        self._pools = pools
        self._metrics = metrics
        self._on_change = on_change
        self._make_scraper = make_scraper
        self._timing = timing or LoopTiming()
        self._clock = clock
        self._memories: dict[TierKey, Memory] = {}
        self._finder = TierFinder(store)
        self._nodes: Mapping[str, SeenNode] = {}
        self._ask_again: dict[TierKey, float] = {}
        self._unanswered: dict[TierKey, float] = {}
        """Since when a tier's state is asked for in vain."""
        self._exactness = ExactnessByTier()
        self._last = 0.0
        self._ticked: float | None = None
        """When the last tick ended, on a clock that nobody sets."""

    def view(self, key: TierKey, uid: str) -> ScalingView | None:
        """What is said of the tier; None before it was looked at, and of another tier of that name.

        A process that stood still may have been replaced meanwhile: it asks for nothing before it has looked again.
        """
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid or memory.shown is None:
            return None
        view = memory.shown.view
        return replace(view, wanted=None) if self._stood_still() else view

    def exactness(self, key: TierKey, uid: str) -> ExactnessView | None:
        """How far the tier's answers are exact; None before a ready pod told."""
        return self._exactness.view(key, uid)

    def requests(self, key: TierKey) -> Mapping[str, float]:
        """Pod → the requests that it ran and that waited for it at the last reading; pods that did not tell are left out."""
        memory = self._memories.get(key)
        if memory is None:
            return {}
        names = {
            str(pod["metadata"].get("uid")): str(pod["metadata"]["name"]) for pod in self._store.pods_of(*key)
        }
        return {
            names[uid]: page.running + page.waiting
            for uid, record in memory.pods.items()
            if uid in names
            and record.told
            and (page := record.page.page) is not None
            and page.running is not None
            and page.waiting is not None
        }

    def overdue(self) -> float:
        """Seconds since the last tick ended, beyond the interval; at most 0 when all is well, and before the first one."""
        return 0.0 if self._ticked is None else time.monotonic() - self._ticked - self._timing.tick

    async def run(self) -> None:
        """Tick until cancelled."""
        self._ticked = time.monotonic()
        async with self._make_scraper() as source, asyncio.TaskGroup() as group:
            group.create_task(self._tick_for_ever(source), name="autoscaler ticks")
            group.create_task(self._write_for_ever(), name="autoscaler states")

    async def tick(self, scraper: PageReader) -> None:
        """One look at every tier."""
        subjects = self._subjects()
        await self._load_new(subjects)
        known = [each for each in subjects if each.measured and each.key in self._memories]
        measured = [
            Target(pod.uid, pod.address, HTTP_PORT) for each in known for pod in each.pods if pod.ready
        ]
        scraped = await scraper.read([*measured, *self._exactness.unread(subjects)])
        changed = {each.key for each in known} if self._stood_still() else set()
        # A clock that was set back stands still until it has caught up: ticks come in order of time.
        now = self._last = max(self._last, self._clock())
        self._nodes = seen_nodes(self._nodes, (pod for each in subjects for pod in each.pods), now)
        for each in known:
            await asyncio.sleep(0)  # reconciles and health checks go on between two tiers
            try:
                if self._look(each, scraped, now):
                    changed.add(each.key)
            except Exception:
                log.exception("the autoscaler failed at %s/%s because of a bug", *each.key)
                # What was learned may be what it failed at; without it nothing shrinks before a full window.
                self._memories[each.key] = replace(self._memories[each.key], state=TierState())
        self._on_change(changed | self._exactness.hear(subjects, scraped))

    def _stood_still(self) -> bool:
        """Whether ticks are missing, so that what was decided at the last one is about another time."""
        return self._clock() - self._last > max(_LASTS, 3 * self._timing.tick)

    async def write_due(self) -> None:
        """Write the states that are due, one after the other."""
        for key in list(self._memories):
            memory = self._memories.get(key)
            tier = self._finder.tier(key, memory.uid) if memory is not None else None
            if memory is None or tier is None:
                continue
            now = self._clock()
            if not is_due(memory, now, self._timing.between_writes):
                continue
            try:
                saved = await self._states.save(tier, memory, now)
            except Exception:
                log.exception("what was learned of %s/%s cannot be written because of a bug", *key)
                saved = Kept(False, memory.version)
            kept = self._memories.get(key)
            # Whether or not it was written: not again at once.
            if kept is not None and kept.uid == memory.uid:
                heard = memory.heard if saved.written else kept.heard_kept
                self._memories[key] = replace(kept, written_at=now, heard_kept=heard, version=saved.version)

    async def _tick_for_ever(self, source: PageReader) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                await self.tick(source)
            except Exception:
                log.exception("a tick of the autoscaler failed because of a bug")
            self._ticked = time.monotonic()
            # A tick that came late does not make the next ones come faster.
            due = max(due + self._timing.tick, loop.time() + self._timing.tick / 10)
            await asyncio.sleep(due - loop.time())

    async def _write_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._timing.tick)
            try:
                await self.write_due()
            except Exception:
                log.exception("writing what was learned failed because of a bug")

    def _look(self, subject: Subject, scraped: Mapping[str, Scraped], now: float) -> bool:
        """Decide for one tier; whether its view changed."""
        key, memory = subject.key, self._memories[subject.key]
        own = {pod.uid: scraped[pod.uid] for pod in subject.pods if pod.uid in scraped}
        room = self._pools.room(key, subject.tier, datetime.fromtimestamp(now, UTC))
        look = Look(subject.tier, subject.pods, subject.wanted, own, now, room, self._nodes)
        decided = decide(memory, look, self._timing)
        after = conclude(decided)
        self._memories[key] = after if after.written_at is not None else replace(after, written_at=now)
        decision = decided.decision
        plan = subject.wanted if decision.replicas is None else decision.replicas
        self._pools.note(key, subject.tier, subject.wanted, plan + decision.unplaced)
        self._metrics.record(key, now, tick_of(decided, own.values()))
        before = None if memory.shown is None else memory.shown.view
        return after.shown is not None and after.shown.view != before

    def _subjects(self) -> tuple[Subject, ...]:
        """The tiers to look at; those that are gone are forgotten, those that rest keep what was learned."""
        found = self._finder.find(self._clock())
        for key in found.resting | found.gone:
            self._pools.forget(key)
        unmeasured = {each.key for each in found.subjects if not each.measured}
        for key in found.resting | found.gone | unmeasured:
            self._metrics.forget(key)
            if (memory := self._memories.get(key)) is not None:
                # Nothing is shown of it, and no page is compared across the gap.
                self._memories[key] = replace(memory, shown=None, pods={}, starts_known=None)
        for subject in found.subjects:
            if not subject.measured:  # the others are noted with what their plan calls for
                self._pools.note(subject.key, subject.tier, subject.wanted)
        for key, memory in list(self._memories.items()):
            if found.uids.get(key) != memory.uid:
                del self._memories[key]
        for asked in (self._ask_again, self._unanswered):
            for key in found.gone & asked.keys():
                del asked[key]
        return found.subjects

    async def _load_new(self, subjects: Iterable[Subject]) -> None:
        """Fetch what was learned of tiers that are new here, and of those whose state could not be read so far."""
        places, now = asyncio.Semaphore(LOADS_AT_ONCE), self._clock()

        async def load(subject: Subject) -> None:
            async with places:
                await self._load(subject, now)

        due = [each for each in subjects if each.measured and self._asks_for(each.key, now)]
        with contextlib.suppress(TimeoutError):  # those that are left are asked for in the next tick
            async with asyncio.timeout(self._timing.tick), asyncio.TaskGroup() as group:
                for each in due:
                    group.create_task(load(each))

    def _asks_for(self, key: TierKey, now: float) -> bool:
        memory = self._memories.get(key)
        return (memory is None or bool(memory.unread)) and now >= self._ask_again.get(key, now)

    async def _load(self, subject: Subject, now: float) -> None:
        """One state; where it cannot be asked for the tier begins without it, does not shrink, and overwrites nothing."""
        key, memory, unread = subject.key, self._memories.get(subject.key), ""
        learned: Learned | None = None
        try:
            learned = await self._states.load(subject.tier)
        except KubeError as error:
            unread = str(error)
            passing = error.verdict is Verdict.RETRY
            since = self._unanswered.setdefault(key, now)
            if memory is None and passing and now - since < _ASKS_AGAIN:
                log.warning("what was learned of %s/%s cannot be asked for: %s", *key, error)
                return  # an API server that is away for a moment: the tier waits for the next tick
            if memory is None or memory.unread != unread:
                log.warning("what was learned of %s/%s cannot be read: %s", *key, error)
            if not passing:
                self._ask_again[key] = now + _ASKS_AGAIN
        except Exception:
            log.exception("what was learned of %s/%s cannot be read because of a bug", *key)
        if not unread:
            self._ask_again.pop(key, None)
            self._unanswered.pop(key, None)
        if memory is None:
            obj = self._store.tier(*key)
            self._memories[key] = first_memory(subject, obj, learned, now, unread)
        elif unread:
            self._memories[key] = replace(memory, unread=unread)
        else:
            self._memories[key] = recalled(memory, learned)
