"""What the operator reports on a tier: conditions, replicas, endpoint, start-up phases and latency."""

from typing import Annotated, Literal

from pydantic import Field

from tierwright.api.base import ApiModel
from tierwright.api.markers import Atomic, ListMap


class Condition(ApiModel):
    """One statement on the tier, in the form of metav1.Condition."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """What the statement is about, such as Ready."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[
        str, Field(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", min_length=1, max_length=1024)
    ]
    """Why, in one word; the runbook has a page for each."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Why, for a person, and what to do."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"}, max_length=64)]
    """When the status last changed."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the spec that the statement is about."""


class WorkloadRef(ApiModel):
    """The object that runs the tier's pods."""

    kind: Annotated[str, Field(max_length=63)]
    """Kind of the object."""
    name: Annotated[str, Field(max_length=253)]
    """Name of the object."""


class EngineStatus(ApiModel):
    """The engine in use."""

    image: Annotated[str, Field(max_length=512)] | None = None
    """Image that the pods run."""
    version: Annotated[str, Field(max_length=64)] | None = None
    """Version of the engine whose arguments are generated."""


class StartupStatus(ApiModel):
    """Where the time went in the last complete start of a pod; whole seconds."""

    pod: Annotated[str, Field(max_length=253)] | None = None
    """The pod that was measured."""
    scheduling_seconds: Annotated[int, Field(ge=0)] | None = None
    """From creation to a node."""
    initialization_seconds: Annotated[int, Field(ge=0)] | None = None
    """From the node to initialised: volumes, network, init containers with their images and downloads."""
    pulling_seconds: Annotated[int, Field(ge=0)] | None = None
    """From initialised to the engine's process: the image pull."""
    loading_seconds: Annotated[int, Field(ge=0)] | None = None
    """From the engine's process to ready: loading and compiling."""
    total_seconds: Annotated[int, Field(ge=0)] | None = None
    """From creation to ready."""


class LatencyStatus(ApiModel):
    """Latency that users got, rounded to two digits."""

    time_to_first_token_p95: Annotated[str, Field(max_length=16)] | None = None
    """95th percentile of the time to the first token over five minutes."""
    time_per_output_token_p95: Annotated[str, Field(max_length=16)] | None = None
    """95th percentile of the time per output token over five minutes."""
    attained: Annotated[str, Field(max_length=16)] | None = None
    """Share of the last hour's requests that met all objectives."""


class ExactnessStatus(ApiModel):
    """How far the answers are those of plain decoding, as the engine measured it at its start; the least of the ready pods."""

    row_exact: bool
    """Whether every step shape gave the same bits: then speculation changes no greedy answer."""
    agreement: Annotated[str, Field(max_length=16)]
    """Share of plain decoding's greedy tokens that steps with drafts gave as well."""
    lossy: Annotated[str, Field(max_length=128)] | None = None
    """The rule by which drafts pass that are not the model's own choice; absent when there is none."""


class TierStatus(ApiModel):
    """What the operator reports."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the spec that this status is about."""
    conditions: Annotated[list[Condition], Field(max_length=16), ListMap(("type",))] = []
    """Statements on the tier."""
    replicas: Annotated[int, Field(ge=0)] | None = None
    """Pods that exist; what the scale subresource reads."""
    selector: Annotated[str, Field(max_length=512)] | None = None
    """Label selector of the pods; what the scale subresource reads."""
    ready_replicas: Annotated[int, Field(ge=0)] | None = None
    """Pods that are ready."""
    desired_replicas: Annotated[int, Field(ge=0)] | None = None
    """Replicas that the workload is asked for."""
    recommended_replicas: Annotated[int, Field(ge=0)] | None = None
    """Replicas that the objectives call for; in modes Auto and Recommend."""
    ready: Annotated[str, Field(max_length=16)] | None = None
    """Ready over desired replicas, such as 2/3; for the printed table."""
    node_pool: Annotated[str, Field(max_length=512)] | None = None
    """The node pool in one line; for the printed table."""
    workload: WorkloadRef | None = None
    """The object that runs the pods."""
    endpoint: Annotated[str, Field(max_length=512)] | None = None
    """Host and port that serve the tier inside the cluster."""
    engine: EngineStatus | None = None
    """The engine in use."""
    startup: StartupStatus | None = None
    """Where the time went in the last start."""
    latency: LatencyStatus | None = None
    """Latency that users got, of tiers with objectives; it stays while no request comes."""
    exactness: ExactnessStatus | None = None
    """How far speculation keeps to plain decoding, on engines that measure it; it stays while no pod is ready."""
    warnings: (
        Annotated[list[Annotated[str, Field(max_length=1024)]], Field(max_length=32), Atomic()] | None
    ) = None
    """What is allowed but likely not meant."""
