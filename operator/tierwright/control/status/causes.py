"""Finds why a tier's pods do not serve: one small function per reason, in a table ordered by what to mend first.

A cause that explains others stands before them: a missing storage class is why a pod cannot be scheduled, a node pool
without nodes is why devices are insufficient.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from tierwright.api.conditions import Reason
from tierwright.control.status import crashes, placement
from tierwright.control.status.words import clipped
from tierwright.observe.pods import ContainerView, PodView
from tierwright.observe.snapshot import Finding, Snapshot

_ENOUGH: Final = 3
_SECRET: Final = re.compile(r"secret[s]? \"[^\"]+\" not found|couldn't find key \S+ in Secret", re.IGNORECASE)
_CONFIG_MAP: Final = re.compile(
    r"configmap[s]? \"[^\"]+\" not found|couldn't find key \S+ in ConfigMap", re.IGNORECASE
)
_IMAGE_REASONS: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
    }
)
_CONFIG_REASONS: Final = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "PreCreateHookError",
        "PostStartHookError",
    }
)
_BACK_OFF_PREFIX: Final = re.compile(r"^Back-off pulling image \"[^\"]*\":?\s*(ErrImagePull:\s*)?")


def applying_failed(snapshot: Snapshot) -> Finding | None:
    """What the API server answered when the children were applied."""
    lasting = [problem for problem in snapshot.problems if not problem.passing]
    if not lasting:
        return None
    return Finding(lasting[0].reason, "; ".join(dict.fromkeys(problem.message for problem in lasting)))


def image_pull_failed(snapshot: Snapshot) -> Finding | None:
    """An image cannot be pulled: wrong name, no permission, or the registry does not answer."""
    for pod, container in _waiting(snapshot, _IMAGE_REASONS):
        words = _BACK_OFF_PREFIX.sub("", container.waiting_message) or container.waiting_reason
        for event in snapshot.events_of("Pod", pod.name, "FailedToRetrieveImagePullSecret"):
            words = f"{words}; {event.message}"
        return _in(Reason.IMAGE_PULL_FAILED, pod, container, words)
    return None


def secret_missing(snapshot: Snapshot) -> Finding | None:
    """A Secret, or a key in it, that a container refers to does not exist."""
    return _missing_reference(snapshot, Reason.SECRET_MISSING, _SECRET)


def config_map_missing(snapshot: Snapshot) -> Finding | None:
    """A ConfigMap, or a key in it, that a container refers to does not exist."""
    return _missing_reference(snapshot, Reason.CONFIG_MAP_MISSING, _CONFIG_MAP)


def container_config_invalid(snapshot: Snapshot) -> Finding | None:
    """The node cannot make the container as the pod describes it."""
    for pod, container in _waiting(snapshot, _CONFIG_REASONS):
        words = container.waiting_message or container.waiting_reason
        return _in(Reason.CONTAINER_CONFIG_INVALID, pod, container, words)
    return None


def volume_not_mounted(snapshot: Snapshot) -> Finding | None:
    """A volume is bound, and the node cannot attach or mount it."""
    for pod in _unready(snapshot):
        for event in snapshot.events_of("Pod", pod.name, "FailedMount", "FailedAttachVolume"):
            return Finding(Reason.VOLUME_PENDING, f"pod {pod.name}: {clipped(event.message)}")
    return None


CAUSES: Final[tuple[Callable[[Snapshot], Finding | None], ...]] = (
    applying_failed,
    placement.creation_refused,
    placement.storage_class_missing,
    placement.volume_pending,
    placement.node_pool_empty,
    placement.unschedulable,
    secret_missing,
    config_map_missing,
    image_pull_failed,
    container_config_invalid,
    crashes.out_of_memory,
    crashes.startup_timeout,
    crashes.download_failed,
    crashes.engine_crashed,
    volume_not_mounted,
    crashes.node_lost,
    crashes.evicted,
)


def causes(snapshot: Snapshot) -> tuple[Finding, ...]:
    """Everything that keeps pods from serving, the first to mend first."""
    found = (cause(snapshot) for cause in CAUSES)
    return tuple(finding for finding in found if finding is not None)


def joined(findings: Iterable[Finding]) -> str:
    """The words of the most important findings in one message."""
    messages: list[str] = []
    for finding in findings:
        if not any(finding.message in earlier for earlier in messages):
            messages.append(finding.message)
    *others, last = messages[:_ENOUGH] or [""]
    return ". Also: ".join([*(words.removesuffix(".") for words in others), last])


def _missing_reference(snapshot: Snapshot, reason: Reason, pattern: re.Pattern[str]) -> Finding | None:
    for pod, container in _waiting(snapshot, _CONFIG_REASONS):
        if pattern.search(container.waiting_message):
            return _in(reason, pod, container, container.waiting_message)
    for pod in _unready(snapshot):
        for event in snapshot.events_of("Pod", pod.name, "FailedMount"):
            if pattern.search(event.message):
                return Finding(reason, f"pod {pod.name}: {clipped(event.message)}")
    return None


def _unready(snapshot: Snapshot) -> tuple[PodView, ...]:
    return tuple(pod for pod in snapshot.active_pods if not pod.ready)


def _waiting(snapshot: Snapshot, reasons: frozenset[str]) -> Iterable[tuple[PodView, ContainerView]]:
    for pod in _unready(snapshot):
        for container in pod.containers:
            if container.waiting_reason in reasons:
                yield pod, container


def _in(reason: Reason, pod: PodView, container: ContainerView, words: str) -> Finding:
    return Finding(reason, f"pod {pod.name}, container {container.name}: {clipped(words)}")
