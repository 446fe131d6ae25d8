"""Keeps what each tier last wanted of its pool, and answers how much room and which share it has there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tierwright.api.tier import InferenceTier
from tierwright.control.node_room import NodeRoom
from tierwright.control.pool_budget import NO_LIMIT, Pool, Seen, Share, Sharer, pool_of, sharer_of, shares
from tierwright.control.pool_room import Replicas, counted, placeable
from tierwright.observe.nodes import NodeView
from tierwright.observe.pods import PodView, pod_view
from tierwright.observe.store import Store, TierKey

_AGAIN: Final = timedelta(seconds=2)
"""How long an answer for a whole pool holds, so that its many tiers cost one computation."""


@dataclass(frozen=True, slots=True)
class Room:
    """What the autoscaler has to know of a tier's pods and its pool."""

    replicas: Replicas
    placeable: int | None
    """Replicas for which there is room, those that have a node included, for the observation; None: nothing limits them."""
    ceiling: int | None
    """More must not stay: devices are owed to another tier. None: what runs may run."""
    taken_on: float
    """Replicas' worth of other tiers' traffic that falls back on this one."""


@dataclass(frozen=True, slots=True)
class _Noted:
    tier: InferenceTier
    asked: int
    wanted: int
    pool: Pool | None


class Pools:
    """All tiers by pool. In memory alone: whole again after each tier's next reconcile."""

    def __init__(self, store: Store, *, has_gateway: bool = False) -> None:
        """`has_gateway`: requests do fall back, so what one tier is not granted becomes another's demand."""
        self._store = store
        self._has_gateway = has_gateway
        self._noted: dict[TierKey, _Noted] = {}
        self._members: dict[Pool, set[TierKey]] = {}
        self._seen: dict[Pool, Seen] = {}
        self._answers: dict[Pool, tuple[datetime, dict[TierKey, Share]]] = {}
        self._on_nodes: tuple[datetime, NodeRoom] | None = None
        self.nodes: Sequence[NodeView] | None = None
        """All nodes, where they may be read; whoever reads them puts them here."""

    def note(self, key: TierKey, tier: InferenceTier, asked: int, wanted: int | None = None) -> None:
        """Take in a tier of any mode: the replicas that its workload is asked for, and those that its plan calls for.

        `wanted` counts what the hold keeps. None: there is no plan, and what is asked for is wanted.
        """
        found = pool_of(tier)
        pool = found[0] if found is not None else None
        before = self._noted.get(key)
        if before is not None and before.pool is not None and before.pool != pool:
            self._leave(key, before.pool)
        self._noted[key] = _Noted(tier, asked, asked if wanted is None else wanted, pool)
        if pool is not None:
            self._members.setdefault(pool, set()).add(key)

    def forget(self, key: TierKey) -> None:
        """The tier is gone, or asks for nothing that could be understood."""
        noted = self._noted.pop(key, None)
        if noted is not None and noted.pool is not None:
            self._leave(key, noted.pool)

    def room(self, key: TierKey, tier: InferenceTier, now: datetime) -> Room:
        """The room and the share of one tier at `now`, an aware time."""
        replicas = counted(self._pods(key), now)
        share = self._share(key, now)
        nodes = self._node_room(now)
        on_nodes = nodes.replicas(tier, key) if nodes is not None else None
        limits = [placeable(replicas, on_nodes), share.placeable]
        known = [each for each in limits if each is not None]
        # The first replica is asked for however full the pool is: what wakes a tier would be lost else.
        return Room(replicas, max(1, min(known)) if known else None, share.ceiling, share.taken_on)

    def _share(self, key: TierKey, now: datetime) -> Share:
        noted = self._noted.get(key)
        if noted is None or noted.pool is None or len(self._members[noted.pool]) < 2:
            return NO_LIMIT
        answered, answer = self._answers.get(noted.pool, (None, {}))
        if key not in answer or not _holds(answered, now):
            answer = self._divided(noted.pool, noted.tier, now)
            self._answers[noted.pool] = (now, answer)
        return answer[key]

    def _divided(self, pool: Pool, any_tier: InferenceTier, now: datetime) -> dict[TierKey, Share]:
        sharers = [self._sharer(key, now) for key in sorted(self._members[pool])]
        nodes = self._node_room(now)
        on_nodes = nodes.devices(any_tier) if nodes is not None else None
        answer, self._seen[pool] = shares(
            [each for each in sharers if each is not None], self._seen.get(pool, Seen()), on_nodes
        )
        return answer

    def _sharer(self, key: TierKey, now: datetime) -> Sharer | None:
        noted = self._noted[key]
        return sharer_of(
            key,
            noted.tier,
            self._pods(key),
            wanted=noted.wanted,
            asked=noted.asked,
            now=now,
            fallback=self._fallback(key, noted.tier),
        )

    def _fallback(self, key: TierKey, tier: InferenceTier) -> TierKey | None:
        traffic = tier.spec.traffic
        if not self._has_gateway or traffic is None or traffic.fallback is None:
            return None
        takers = self._store.same_speed(key[0], tier.spec.model.name, traffic.fallback.to)
        return (key[0], str(takers[0]["metadata"]["name"])) if takers else None

    def _pods(self, key: TierKey) -> Iterable[PodView]:
        return [pod_view(pod) for pod in self._store.pods_of(*key)]

    def _node_room(self, now: datetime) -> NodeRoom | None:
        if self.nodes is None:
            return None
        if self._on_nodes is None or not _holds(self._on_nodes[0], now):
            pods = {key: self._store.pods_of(*key) for key in self._noted}
            self._on_nodes = (now, NodeRoom(self.nodes, pods))
        return self._on_nodes[1]

    def _leave(self, key: TierKey, pool: Pool) -> None:
        self._members[pool].discard(key)
        if not self._members[pool]:
            del self._members[pool]
            self._seen.pop(pool, None)
            self._answers.pop(pool, None)


def _holds(answered: datetime | None, now: datetime) -> bool:
    """Whether an answer of then is good enough for now."""
    return answered is not None and timedelta() <= now - answered < _AGAIN
