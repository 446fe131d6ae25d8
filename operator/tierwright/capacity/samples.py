"""What one tick tells of a tier, and how its pods become one row: what is missing stays missing."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

_ENOUGH = 0.5
"""Share of the ready pods that must have answered; with fewer the rest cannot be inferred."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Requests that were held against the objectives, and how many of them missed."""

    requests: float
    misses: float


@dataclass(frozen=True, slots=True)
class PodSample:
    """What one ready pod did between two readings. None: the engine does not tell, or not credibly."""

    seconds: float
    """Length of the interval."""
    age: float
    """Seconds since the pod became ready."""
    arrivals: float | None
    """Requests that came, whether or not they have ended."""
    running: float | None
    """Requests in the batch at the end of the interval."""
    waiting: float | None
    """Requests in the engine's queue at the end of the interval."""
    prefilled: float | None = None
    """Requests whose first token came."""
    prompt_tokens: float | None = None
    """Prompt tokens of those requests, cached ones included."""
    cached_tokens: float | None = None
    """Prompt tokens that a cache served."""
    output_tokens: float | None = None
    """Tokens generated."""
    steps: float | None = None
    """Engine steps."""
    token_seconds: float | None = None
    """Mean seconds between two tokens of a request."""
    context_tokens: float | None = None
    """Tokens in the KV cache at the end of the interval."""
    first_token: Judged | None = None
    """Held against the objective for the first token."""
    per_token: Judged | None = None
    """Held against the objective per output token."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that one tick of one tier saw."""

    pods: tuple[PodSample, ...]
    """One for each ready pod that answered."""
    ready: int
    """Ready replicas, whether or not they answered."""
    wanted: int
    """Replicas that the workload is asked for now."""
    starting: tuple[float, ...] = ()
    """Age in seconds of each replica that is not ready yet."""
    started: tuple[float, ...] = ()
    """Seconds that each start took that ended since the last tick."""
    placeable: int | None = None
    """Replicas for which the pool has room, those that run included; None: unknown."""
    queued: float = 0.0
    """Requests that wait in front of the engines, at the gateway."""
    judged: Judged | None = None
    """Requests held against all objectives together, measured in front of the engines; preferred to the pods' own."""


@dataclass(frozen=True, slots=True)
class Row:
    """One interval of a whole tier."""

    at: float
    """End of the interval, seconds since 1970."""
    seconds: float
    ready: int
    arrivals: float
    backlog: float
    """Requests that wait, in the engines and in front of them, at the end."""
    running: float
    prefilled: float
    prompt_tokens: float
    cached_tokens: float
    output_tokens: float
    requests: float
    """Requests held against the objectives."""
    misses: float


def row_of(observation: Observation, at: float, young: float) -> Row | None:
    """The tier's row: sums over its pods, scaled up for ready pods that did not answer.

    Pods younger than `young` seconds are left out of what is learned from latency, not of demand. None when fewer than half
    of the ready pods tell their arrivals: no data is no row, never a row of zeros.
    """
    telling = [
        pod
        for pod in observation.pods
        if pod.seconds > 0
        and pod.arrivals is not None
        and pod.waiting is not None
        and pod.running is not None
    ]
    if not telling or len(telling) < _ENOUGH * observation.ready:
        return None
    ready = max(observation.ready, len(telling))
    scale = ready / len(telling)
    judged = observation.judged or _judged(pod for pod in telling if pod.age >= young)

    def total(read: Callable[[PodSample], float | None]) -> float:
        return scale * sum(value for pod in telling if (value := read(pod)) is not None)

    return Row(
        at=at,
        seconds=max(pod.seconds for pod in telling),
        ready=ready,
        arrivals=total(lambda pod: pod.arrivals),
        backlog=total(lambda pod: pod.waiting) + observation.queued,
        running=total(lambda pod: pod.running),
        prefilled=total(lambda pod: pod.prefilled),
        prompt_tokens=total(lambda pod: pod.prompt_tokens),
        cached_tokens=total(lambda pod: pod.cached_tokens),
        output_tokens=total(lambda pod: pod.output_tokens),
        requests=judged.requests,
        misses=judged.misses,
    )


def _judged(pods: Iterable[PodSample]) -> Judged:
    """Requests that missed any objective, from one histogram per objective: their sum, since nothing says that they overlap.

    It is exact when no request misses both, and too high by those that do.
    """
    first, per_token = [], []
    for pod in pods:
        first.append(pod.first_token or Judged(0.0, 0.0))
        per_token.append(pod.per_token or Judged(0.0, 0.0))
    shares = 0.0
    for judged in (first, per_token):
        requests = sum(each.requests for each in judged)
        if requests:
            shares += sum(each.misses for each in judged) / requests
    requests = max(sum(each.requests for each in first), sum(each.requests for each in per_token))
    return Judged(requests, requests * min(1.0, shares))
