"""Freezes all that the status of one tier is computed from; made at the end of a reconcile, read by pure functions."""

from dataclasses import dataclass
from enum import StrEnum

from tierwright.api.conditions import Reason
from tierwright.api.tier import InferenceTier
from tierwright.observe.jobs import JobView
from tierwright.observe.pods import EventView, PodView, VolumeClaimView, WorkloadView


class Stage(StrEnum):
    """How far the reconcile of a tier may go."""

    ACTIVE = "Active"
    PAUSED = "Paused"
    """A person asked for hands off."""
    REFUSED = "Refused"
    """The spec cannot be carried out; children stay as they are."""
    DELETING = "Deleting"


@dataclass(frozen=True)
class Finding:
    """A reason from the constants file, and the words for a person."""

    reason: Reason
    message: str


@dataclass(frozen=True)
class Problem(Finding):
    """What stood in the way of applying children; ``passing`` when it is tried again soon by itself."""

    passing: bool = False
    namespace_ends: bool = False
    """Whether the namespace takes nothing new any more, an Event least of all."""


@dataclass(frozen=True)
class ScaleView:
    """Who decides the replicas: the number asked for, and what ScalingActive says about it."""

    wanted: int | None
    reason: Reason
    message: str
    suspended: bool = False
    follows_load: bool = False


@dataclass(frozen=True)
class LatencyView:
    """Latency and attainment as the status shows them: rounded texts, None where nothing was measured."""

    first_token_p95: str | None = None
    per_token_p95: str | None = None
    attained: str | None = None
    """Share of the last hour's requests that met all objectives."""
    kept: bool | None = None
    """Whether that share is what the tier promises; None: too few requests to tell."""


@dataclass(frozen=True)
class ScalingView:
    """What the autoscaler says of one tier: it changes only when what is shown or applied changes."""

    wanted: int | None
    """Replicas to ask for in mode Auto; None: whatever is asked for now stays."""
    recommended: int | None
    reason: Reason
    message: str
    follows_load: bool
    """Whether the number comes from the load; False while there is nothing to go by."""
    latency: LatencyView = LatencyView()
    warnings: tuple[str, ...] = ()
    instead_of: int | None = None
    """The replicas that were asked for when fewer were decided on; None: not fewer. Of another number nothing is decided."""


@dataclass(frozen=True)
class ExactnessView:
    """How far the answers are those of plain decoding, as the status shows it: the least that a ready pod measured."""

    row_exact: bool
    agreement: str
    """Per cent."""
    lossy: str = ""


@dataclass(frozen=True)
class ChildAdditions:
    """Fields of one child that one other field manager added beside ours; ``child`` is kind and name."""

    child: str
    manager: str
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """What the desired children say about the tier, for the status to repeat."""

    endpoint: str
    engine_image: str
    engine_version: str | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class CompileView:
    """The Job that fills the tier's compile volume, whether it is there or not.

    ``outcome`` is what the workload remembers of compiling the present spec's programs; None as long as it waits.
    """

    job_name: str
    outcome: Reason | None
    job: JobView | None
    pods: tuple[PodView, ...] = ()
    refusal: str = ""
    """Why the API server refuses to make the Job."""

    @property
    def lacks_pods(self) -> bool:
        """Whether the Job runs and has no pod; its Events tell why."""
        return self.job is not None and not self.job.ended and not self.pods


@dataclass(frozen=True)
class Snapshot:
    """One tier at one moment.

    ``tier`` and ``facts`` are None when the spec cannot be read or carried out; ``refusal`` then says why.
    ``waiting_for`` names children that cannot be applied before another object is gone.
    """

    generation: int
    stage: Stage
    selector: str
    tier: InferenceTier | None = None
    refusal: Finding | None = None
    facts: Facts | None = None
    problems: tuple[Problem, ...] = ()
    waiting_for: tuple[str, ...] = ()
    scale: ScaleView | None = None
    scaling: ScalingView | None = None
    exactness: ExactnessView | None = None
    workload: WorkloadView | None = None
    pods: tuple[PodView, ...] = ()
    claims: tuple[VolumeClaimView, ...] = ()
    events: tuple[EventView, ...] = ()
    additions: tuple[ChildAdditions, ...] = ()
    compile: CompileView | None = None

    @property
    def active_pods(self) -> tuple[PodView, ...]:
        """Pods that count as replicas."""
        return tuple(pod for pod in self.pods if pod.active)

    @property
    def ready_count(self) -> int:
        """Replicas that serve."""
        return sum(pod.ready for pod in self.pods)

    @property
    def wanted(self) -> int:
        """Replicas that are asked for, as far as that is known."""
        if self.scale is not None and self.scale.wanted is not None:
            return self.scale.wanted
        return self.workload.replicas if self.workload is not None else 0

    def events_of(self, kind: str, name: str, *reasons: str) -> tuple[EventView, ...]:
        """Events on one object with one of these reasons."""
        return tuple(
            event
            for event in self.events
            if event.kind == kind and event.name == name and event.reason in reasons
        )
