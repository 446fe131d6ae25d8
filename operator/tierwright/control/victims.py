"""Decides which replicas go when a tier gets smaller: those that do not serve first, then the idlest, then the youngest.

The ReplicaSet's controller chooses by itself among pods without a node, pending, not ready; only then by the annotation
that is decided here, where the lowest number goes first. A settled tier needs no annotation and gets none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tierwright.kube.resources import Object

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_GOES: Final = "-1"
"""Below the 0 of pods without the annotation."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One replica that could go."""

    name: str
    ready: bool
    requests: float | None
    """Requests that it runs and that wait for it; None where it does not tell, which counts as busy."""
    ready_since: str
    """When it became ready (RFC 3339 in UTC, so that text sorts by time); empty where it is not known."""
    cost: str | None
    """What its annotation says now; a number that is not ours is somebody's wish, and is followed first."""


def costs_to_write(candidates: Iterable[Candidate], left: int) -> dict[str, str | None]:
    """Pod → the annotation's new value, None to take it away, so that `left` replicas remain and the right ones go.

    Only for pods whose annotation must change: those that go get a negative number where there is none, and what an
    earlier choice left on those that stay is taken away. Empty when nothing has to go.
    """
    replicas = list(candidates)
    if left <= 0 or len(replicas) <= left:
        return {}
    serving = sorted((each for each in replicas if each.ready), key=_goes_later)
    unready = len(replicas) - len(serving)
    chosen = {each.name for each in serving[: max(0, len(replicas) - left - unready)]}
    wanted: Mapping[str, str | None] = {
        each.name: _GOES if each.name in chosen else None for each in replicas
    }
    return {each.name: wanted[each.name] for each in replicas if _differs(each, wanted[each.name])}


def candidates_of(pods: Iterable[Object], requests: Mapping[str, float]) -> tuple[Candidate, ...]:
    """The live pods that are replicas; `requests` gives what each pod had to do when it was last asked."""
    found = []
    for pod in pods:
        metadata, status = pod["metadata"], pod.get("status") or {}
        if metadata.get("deletionTimestamp") or status.get("phase") in ("Failed", "Succeeded"):
            continue
        conditions: dict[str, Object] = {each["type"]: each for each in status.get("conditions") or ()}
        ready = conditions.get("Ready", {})
        found.append(
            Candidate(
                name=str(metadata["name"]),
                ready=ready.get("status") == "True",
                requests=requests.get(str(metadata["name"])),
                ready_since=str(ready.get("lastTransitionTime") or ""),
                cost=(metadata.get("annotations") or {}).get(DELETION_COST),
            )
        )
    return tuple(found)


def _goes_later(candidate: Candidate) -> tuple[int, bool, float, int, str]:
    """The order in which replicas go: as others wish, idle before busy, younger before older, by name where all is equal."""
    known = candidate.requests is not None
    since = "".join(filter(str.isdigit, candidate.ready_since))
    return (_wish(candidate), not known, candidate.requests or 0.0, -int(since or 0), candidate.name)


def _wish(candidate: Candidate) -> int:
    if candidate.cost in (None, _GOES):
        return 0
    try:
        return int(candidate.cost)
    except ValueError:
        return 0


def _differs(candidate: Candidate, wanted: str | None) -> bool:
    """A number of others stays where it is, unless ours must say that the pod goes."""
    if wanted is None:
        return candidate.cost == _GOES
    return candidate.cost != wanted and _wish(candidate) >= 0
