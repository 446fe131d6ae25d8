"""The InferenceTier object: one speed of one model, as the user writes it and as the operator reports on it."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from tierwright.api import patterns
from tierwright.api.base import ApiModel
from tierwright.api.cache import CacheSpec
from tierwright.api.engine import EngineSpec
from tierwright.api.hardware import HardwareSpec
from tierwright.api.markers import Atomic, ListMap, PreserveUnknownFields
from tierwright.api.model import ModelSpec
from tierwright.api.rollout import RolloutSpec
from tierwright.api.scalars import ObjectName
from tierwright.api.scaling import ScalingSpec
from tierwright.api.status import TierStatus
from tierwright.api.traffic import Speed, TrafficSpec

GROUP: Final = "tierwright.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "InferenceTier"
PLURAL: Final = "inferencetiers"
PAUSED_ANNOTATION: Final = f"{GROUP}/paused"


class LocalObjectRef(ApiModel):
    """Another object of the tier's namespace."""

    name: ObjectName
    """Name of the object."""


class ServiceAccountSpec(ApiModel):
    """The identity of the tier's pods."""

    name: ObjectName | None = None
    """An existing ServiceAccount; absent: the operator makes one for the tier."""
    annotations: Annotated[
        dict[str, Annotated[str, Field(max_length=4096)]],
        Field(max_length=32),
    ] = {}
    """Annotations of the ServiceAccount that the operator makes, such as a cloud role."""


class PodSpec(ApiModel):
    """Settings of the tier's pods."""

    scheduler_name: Annotated[str, Field(max_length=253)] | None = None
    """Scheduler that places the pods; default: the cluster's own."""
    priority_class_name: ObjectName | None = None
    """PriorityClass of the pods."""
    image_pull_secrets: Annotated[list[LocalObjectRef], Field(max_length=16), ListMap(("name",))] = []
    """Secrets for private image registries."""
    service_account: ServiceAccountSpec = ServiceAccountSpec()
    """Identity of the pods."""


class TierSpec(ApiModel):
    """What the user wants of the tier."""

    model: ModelSpec
    """The model."""
    speed: Speed
    """The value that requests ask for; unique per namespace and model.name. Immutable."""
    replicas: Annotated[int, Field(ge=0, le=1000)] = 1
    """Replicas in modes Manual and Recommend (what the scale subresource writes); the start value in mode Auto."""
    engine: EngineSpec
    """The engine."""
    hardware: HardwareSpec
    """Where the tier runs."""
    pod: PodSpec = PodSpec()
    """Settings of the pods."""
    pod_template: Annotated[dict[str, Any], PreserveUnknownFields(), Atomic()] | None = None
    """Strategic patch of the pod template (metadata and spec), the last word for what is not typed."""
    cache: CacheSpec = CacheSpec()
    """The tier's own volumes."""
    scaling: ScalingSpec = ScalingSpec()
    """How many replicas."""
    rollout: RolloutSpec = RolloutSpec()
    """How pods are replaced."""
    traffic: TrafficSpec | None = None
    """How the gateway treats requests."""
    suspend: bool = False
    """True: no replicas, the other children are kept."""


class ObjectMeta(ApiModel):
    """The part of an object's metadata that the operator reads."""

    name: Annotated[str, Field(pattern=patterns.OBJECT_NAME, min_length=1, max_length=253)]
    namespace: Annotated[str, Field(pattern=patterns.NAMESPACE, max_length=63)] = "default"
    uid: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class InferenceTier(ApiModel):
    """One speed of one model."""

    api_version: Literal["tierwright.dev/v1alpha1"]
    kind: Literal["InferenceTier"]
    metadata: ObjectMeta
    spec: TierSpec
    status: TierStatus = TierStatus()
