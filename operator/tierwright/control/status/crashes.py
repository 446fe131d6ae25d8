"""Finds why containers that did start do not last: memory, start-up budget, downloads, crashes, lost nodes."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from tierwright.api.conditions import Reason
from tierwright.control.status.words import clipped, tail
from tierwright.desired.budgets import Budgets, budgets
from tierwright.desired.containers import ENGINE_CONTAINER
from tierwright.desired.fetch import FETCH_CONTAINERS
from tierwright.observe.pods import ContainerView, Exit, PodView
from tierwright.observe.snapshot import Finding, Snapshot

_STARTUP_PROBE: Final = re.compile(r"failed startup probe", re.IGNORECASE)
_LIVENESS_PROBE: Final = re.compile(r"failed liveness probe", re.IGNORECASE)
_GATED: Final = "ReadinessGatesNotReady"
_TOLD_TO_END: Final = (0, 137, 143)
"""Exit codes of an engine that ends in good order when it is told to, or by the signals TERM and KILL."""


def out_of_memory(snapshot: Snapshot) -> Finding | None:
    """The kernel killed a container that went over its memory limit."""
    for pod, container, ended in _broken(snapshot):
        if ended.reason == "OOMKilled":
            return Finding(
                Reason.OUT_OF_MEMORY,
                f"{_where(pod, container)} was killed: out of host memory, {_restarts(container)};"
                " raise hardware.resources.memory",
            )
    return None


def startup_timeout(snapshot: Snapshot) -> Finding | None:
    """The kubelet ended the engine since it was not ready within the start-up budget, whatever its exit code was."""
    for pod, container, ended in _broken(snapshot):
        if not _timed_out(snapshot, pod, container, ended):
            continue
        times = _times(snapshot)
        within = f" ({times.startup} s)" if times is not None else ""
        length = _seconds_of(ended)
        after = f" after {length:.0f} s" if length is not None else ""
        return Finding(
            Reason.STARTUP_TIMEOUT,
            f"{_where(pod, container)} was not ready in time{within} and was killed{after}, {_restarts(container)}"
            f"{_last_words(pod, container, ended)}; raise rollout.startupTimeout if it only needs longer",
        )
    return None


def download_failed(snapshot: Snapshot) -> Finding | None:
    """The init container that fetches the weights ends with an error."""
    for pod, container, ended in _broken(snapshot):
        if container.name in FETCH_CONTAINERS:
            return Finding(Reason.DOWNLOAD_FAILED, _ended(pod, container, ended))
    return None


def engine_crashed(snapshot: Snapshot) -> Finding | None:
    """The engine ends by itself, or its liveness probe fails; ends that another cause tells of are left to it."""
    for pod, container, ended in _broken(snapshot):
        stopped = _stopped_by_kubelet(snapshot, pod, container, ended)
        if ended.reason == "OOMKilled" or container.name in FETCH_CONTAINERS:
            continue
        if _timed_out(snapshot, pod, container, ended):
            continue
        words = _ended(pod, container, ended)
        if _LIVENESS_PROBE.search(stopped):
            words = f"{words}; {stopped}"
        return Finding(Reason.ENGINE_CRASHED, words)
    return None


def node_lost(snapshot: Snapshot) -> Finding | None:
    """The node of a pod no longer answers."""
    for pod in snapshot.pods:
        if _node_is_lost(pod):
            return Finding(Reason.NODE_LOST, f"pod {pod.name}: node {pod.node} does not answer")
    return None


def evicted(snapshot: Snapshot) -> Finding | None:
    """A node threw a pod out, mostly since its disk or memory ran out; its remains say nothing once others serve."""
    if snapshot.ready_count >= snapshot.wanted:
        return None
    for pod in snapshot.pods:
        if pod.phase == "Failed" and pod.reason == "Evicted":
            return Finding(Reason.EVICTED, f"pod {pod.name} was evicted: {clipped(pod.message)}")
    return None


def _broken(snapshot: Snapshot) -> Iterator[tuple[PodView, ContainerView, Exit]]:
    """Containers that ended and have not become ready since; they stay in here while they start once more."""
    for pod in snapshot.active_pods:
        if pod.ready:
            continue
        for container in pod.containers:
            ended = container.latest_exit
            finished = (
                container.is_init and ended is not None and container.exit is not None and ended.code == 0
            )
            if ended is not None and not container.ready and not finished:
                yield pod, container, ended


def _node_is_lost(pod: PodView) -> bool:
    """The node controller turns Ready off and leaves ContainersReady as the kubelet last reported it.

    A readiness gate, such as a load balancer's, does the same; the kubelet then gives that as the reason.
    """
    if pod.reason == "NodeLost":
        return True
    disruption = pod.condition("DisruptionTarget")
    if disruption is not None and disruption.reason == "DeletionByTaintManager":
        return True
    ready = pod.condition("Ready")
    gated = ready is not None and ready.reason == _GATED
    return (
        pod.active and bool(pod.node) and pod.holds("ContainersReady") and not (pod.holds("Ready") or gated)
    )


def _stopped_by_kubelet(snapshot: Snapshot, pod: PodView, container: ContainerView, ended: Exit) -> str:
    """What the kubelet said when it stopped the run that ended so; empty where the container ended by itself.

    Failed probes alone say nothing: every start has some. Nor does the end of an earlier run.
    """
    for event in snapshot.events_of("Pod", pod.name, "Killing"):
        if f"Container {container.name} " in event.message and not _is_before(event.seen, ended.started):
            return clipped(event.message)
    return ""


def _timed_out(snapshot: Snapshot, pod: PodView, container: ContainerView, ended: Exit) -> bool:
    """Whether a run ended because its start took too long: the kubelet says so, or nobody says why and it lasted that long.

    Events go after an hour and may not be readable. Then a run that was ended from outside, and lasted as long as the
    budget and no longer than it takes to end an engine, tells the same.
    """
    stopped = _stopped_by_kubelet(snapshot, pod, container, ended)
    if stopped or ended.reason == "OOMKilled":
        return _STARTUP_PROBE.search(stopped) is not None
    times, length = _times(snapshot), _seconds_of(ended)
    if (
        times is None
        or length is None
        or container.name != ENGINE_CONTAINER
        or ended.code not in _TOLD_TO_END
    ):
        return False
    most = times.startup + 2 * times.startup_period + times.grace
    return times.startup <= length <= most


def _times(snapshot: Snapshot) -> Budgets | None:
    return budgets(snapshot.tier.spec.rollout, fetches=False) if snapshot.tier is not None else None


def _seconds_of(ended: Exit) -> float | None:
    """How long the run lasted; None where that is not known."""
    try:
        length = datetime.fromisoformat(ended.finished) - datetime.fromisoformat(ended.started)
    except (ValueError, TypeError):
        return None
    return length.total_seconds()


def _is_before(one: str, other: str) -> bool:
    """Whether a moment lies before another; not so where one of them is unknown."""
    try:
        return datetime.fromisoformat(one) < datetime.fromisoformat(other)
    except (ValueError, TypeError):
        return False


def _ended(pod: PodView, container: ContainerView, ended: Exit) -> str:
    hint = _last_words(pod, container, ended)
    return f"{_where(pod, container)} ended with exit code {ended.code}, {_restarts(container)}{hint}"


def _last_words(pod: PodView, container: ContainerView, ended: Exit) -> str:
    if ended.message.strip():
        return f"; last words: {tail(ended.message)}"
    return f"; see {_logs(pod, container)}"


def _where(pod: PodView, container: ContainerView) -> str:
    return f"pod {pod.name}, container {container.name}"


def _logs(pod: PodView, container: ContainerView) -> str:
    return f"kubectl logs {pod.name} -c {container.name} --previous"


def _restarts(container: ContainerView) -> str:
    return "1 restart" if container.restarts == 1 else f"{container.restarts} restarts"
