"""Measures where the time went in the last complete start of a pod, from the pod's own fields (rule 11)."""

from datetime import datetime

from tierwright.api.status import StartupStatus
from tierwright.observe.pods import PodView
from tierwright.observe.snapshot import Snapshot


def startup(snapshot: Snapshot, previous: StartupStatus | None) -> StartupStatus | None:
    """Phases of the newest pod that is ready; whole seconds.

    A pod that was measured once keeps its figures: readiness that comes and goes later is no start. While no pod is
    ready the last figures stay.
    """
    candidates = [pod for pod in snapshot.pods if pod.ready and _restarts(pod) == 0]
    if not candidates:
        return previous
    newest = max(candidates, key=lambda pod: (pod.created, pod.name))
    if previous is not None and previous.pod == newest.name:
        return previous
    return _measured(newest)


def _measured(pod: PodView) -> StartupStatus:
    created = _time(pod.created)
    scheduled = _since(pod, "PodScheduled")
    initialised = _since(pod, "Initialized")
    running = [_time(each.running_since) for each in pod.containers if not each.is_init]
    started = max((moment for moment in running if moment is not None), default=None)
    became_ready = _since(pod, "Ready")
    return StartupStatus(
        pod=pod.name,
        scheduling_seconds=_seconds(created, scheduled),
        initialization_seconds=_seconds(scheduled, initialised),
        pulling_seconds=_seconds(initialised, started),
        loading_seconds=_seconds(started, became_ready),
        total_seconds=_seconds(created, became_ready),
    )


def _since(pod: PodView, condition_type: str) -> datetime | None:
    condition = pod.condition(condition_type)
    return _time(condition.since) if condition is not None and condition.status == "True" else None


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _seconds(start: datetime | None, end: datetime | None) -> int | None:
    if start is None or end is None:
        return None
    return max(0, round((end - start).total_seconds()))


def _restarts(pod: PodView) -> int:
    return sum(container.restarts for container in pod.containers if not container.is_init)
