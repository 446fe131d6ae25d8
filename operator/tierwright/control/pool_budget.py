"""Shares the accelerators of one pool among the tiers that draw on it, so that no tier's burst takes another tier's minimum.

How many devices a pool has is read from its nodes, or else from what happens: as long as a pod waits for devices, the
pool holds what is placed on it. While nothing waits there is nothing to share, and every tier gets what it wants.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from tierwright.api.hardware import NodePool
from tierwright.api.tier import InferenceTier
from tierwright.capacity.budget import Claim, Grant, divide
from tierwright.capacity.decision import Decision, Reason
from tierwright.control.pool_room import lacks
from tierwright.hardware.accelerators import placement
from tierwright.hardware.refusal import RefusedError
from tierwright.observe.pods import PodView

TierKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Pool:
    """The nodes that some tiers share, and the device that they share on them. Tiers of all namespaces meet here."""

    selector: str
    device: str


@dataclass(frozen=True, slots=True)
class Sharer:
    """One tier that draws on a pool."""

    key: TierKey
    pool: Pool
    devices: int
    """Devices of one replica."""
    minimum: int
    maximum: int
    wanted: int
    """Replicas that its plan calls for."""
    asked: int
    """Replicas that its workload is asked for now."""
    yields: bool
    """Whether its replicas are ours to take: mode Auto. What a person set is taken from nobody."""
    priority: int
    price: float
    fallback: TierKey | None
    fallback_ratio: float
    placed: Mapping[str, int]
    """Node → replicas of the tier on it."""
    waits: bool
    """Whether a pod of it has waited for devices for a minute."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one tier may have of its pool."""

    placeable: int | None
    """For the observation: further replicas are not asked for beyond it. None: nothing limits the tier."""
    ceiling: int | None
    """More than so many must not stay, since devices are owed to another tier. None: what runs may run."""
    taken_on: float
    """Replicas' worth of traffic of other tiers that this tier's grant has room for."""


NO_LIMIT: Final = Share(None, None, 0.0)


@dataclass(frozen=True, slots=True)
class Seen:
    """Devices of a pool, by node, that were in use at once since a pod began to wait.

    What a tier gives back for another stays counted: were it not, a pod that waits for something else would drain the
    pool replica by replica.
    """

    devices: Mapping[str, int] = field(default_factory=dict)


def within_share(decision: Decision, asked: int, ceiling: int | None) -> Decision:
    """The decision, or fewer replicas where devices are owed to another tier; `asked` is what is asked for now.

    Without a decision nothing is taken away either: how many replicas the tier needs is not known then.
    """
    if ceiling is None or decision.replicas is None or decision.replicas <= ceiling:
        return decision
    return replace(
        decision,
        replicas=ceiling,
        reason=Reason.POOL_FULL,
        unplaced=max(decision.replicas, asked) - ceiling,
    )


def pool_of(tier: InferenceTier) -> tuple[Pool, int] | None:
    """The pool that a tier draws on, and the devices of one replica there; None without devices, or where it is refused."""
    try:
        devices = placement(tier.spec).devices
    except RefusedError:
        return None
    if len(devices) != 1:
        return None
    ((device, count),) = devices.items()
    return Pool(_selector(tier.spec.hardware.node_pool), device), count


def sharer_of(
    key: TierKey,
    tier: InferenceTier,
    pods: Iterable[PodView],
    *,
    wanted: int,
    asked: int,
    now: datetime,
    fallback: TierKey | None = None,
    fallback_ratio: float = 1.0,
) -> Sharer | None:
    """One tier as it draws on its pool at `now`; None where it draws on none.

    `fallback` is the tier that takes this one's traffic, given only where a gateway routes it there. In other modes than
    Auto the tier claims what it is asked for, and nothing of it is taken.
    """
    found = pool_of(tier)
    if found is None:
        return None
    pool, devices = found
    scaling, is_auto = tier.spec.scaling, tier.spec.scaling.mode == "Auto" and not tier.spec.suspend
    active = [pod for pod in pods if pod.active]
    bounded = scaling.bounded_in_auto(wanted) if is_auto else asked
    return Sharer(
        key=key,
        pool=pool,
        devices=devices,
        minimum=min(scaling.fewest_in_auto, bounded) if is_auto else asked,
        maximum=max(bounded, scaling.max_replicas or bounded) if is_auto else asked,
        wanted=bounded,
        asked=asked,
        yields=is_auto,
        priority=scaling.priority,
        price=float(tier.spec.traffic.price_multiplier or 1) if tier.spec.traffic is not None else 1.0,
        fallback=fallback,
        fallback_ratio=fallback_ratio,
        placed=Counter(pod.node for pod in active if pod.node),
        waits=any(lacks(pod, pool.device, now) for pod in active),
    )


def shares(
    sharers: Sequence[Sharer], seen: Seen, on_nodes: Mapping[str, int] | None = None
) -> tuple[dict[TierKey, Share], Seen]:
    """What each of the tiers of one pool may have, and what to remember until the next question.

    `on_nodes` gives the devices of each node of the pool where the nodes may be read. Then they are the budget; else a
    budget exists only while a pod waits, and only for tiers whose replicas are no smaller than that pod: a small replica
    may still find a place where a large one does not.
    """
    waiting = [each.devices for each in sharers if each.waits]
    if not waiting and on_nodes is None:
        return {each.key: NO_LIMIT for each in sharers}, Seen()
    nodes = dict(on_nodes) if on_nodes is not None else _in_use(sharers, seen)
    largest = max(nodes.values(), default=0)
    total = sum(nodes.values())
    grants = divide([_claim(each, largest) for each in sharers], total)
    kept = _kept(sharers, grants, total) if _is_owed(sharers, grants) else {}
    smallest = 0 if on_nodes is not None else min(waiting)
    # A grant goes by what the last plan called for; who calls for more by now has what nobody was granted.
    spare = max(
        0, total - sum(grant.replicas * each.devices for each, grant in zip(sharers, grants, strict=True))
    )
    return {
        each.key: Share(
            placeable=max(grant.replicas + spare // each.devices, each.minimum)
            if each.devices >= smallest
            else None,
            ceiling=kept.get(each.key),
            taken_on=grant.taken_on,
        )
        for each, grant in zip(sharers, grants, strict=True)
    }, Seen(nodes if on_nodes is None else {})


def _is_owed(sharers: Sequence[Sharer], grants: Sequence[Grant]) -> bool:
    """Whether a tier that waits would get replicas if others had no more than their grants."""
    return any(
        each.waits and grant.replicas > sum(each.placed.values())
        for each, grant in zip(sharers, grants, strict=True)
    )


def _kept(sharers: Sequence[Sharer], grants: Sequence[Grant], total: int) -> dict[TierKey, int]:
    """Replicas that may stay, for each tier that has to give some back; what nobody claims stays where it is."""
    spare = total - sum(grant.replicas * each.devices for each, grant in zip(sharers, grants, strict=True))
    kept = {}
    pairs = sorted(zip(sharers, grants, strict=True), key=lambda pair: -pair[0].priority)
    for each, grant in pairs:
        more = sum(each.placed.values()) - grant.replicas
        if more <= 0 or not each.yields:
            continue
        unclaimed = min(more, spare // each.devices)
        spare -= unclaimed * each.devices
        if unclaimed < more:
            kept[each.key] = grant.replicas + unclaimed
    return kept


def _claim(sharer: Sharer, largest: int) -> Claim:
    """A replica that no node can hold claims nothing beyond what is placed: what others gave up for it would be lost."""
    placed = sum(sharer.placed.values())
    most = sharer.maximum if sharer.devices <= largest else placed
    return Claim(
        tier=_name(sharer.key),
        minimum=min(sharer.minimum, most),
        maximum=most,
        current=placed,
        wanted=min(sharer.wanted, most),
        devices=sharer.devices,
        priority=sharer.priority,
        price=sharer.price,
        fallback=_name(sharer.fallback) if sharer.fallback is not None else None,
        fallback_ratio=sharer.fallback_ratio,
    )


def _in_use(sharers: Iterable[Sharer], seen: Seen) -> dict[str, int]:
    """Devices by node: the most that were in use at once."""
    now: Counter[str] = Counter()
    for each in sharers:
        for node, replicas in each.placed.items():
            now[node] += replicas * each.devices
    return {node: max(now[node], seen.devices.get(node, 0)) for node in now.keys() | seen.devices.keys()}


def _selector(pool: NodePool) -> str:
    """The selector as one text, in which the order of its parts makes no difference."""
    labels = [f"{key}={value}" for key, value in pool.match_labels.items()]
    expressions = [
        f"{each.key} {each.operator} {','.join(sorted(each.values))}".rstrip()
        for each in pool.match_expressions
    ]
    return ";".join(sorted([*labels, *expressions]))


def _name(key: TierKey) -> str:
    return f"{key[0]}/{key[1]}"
