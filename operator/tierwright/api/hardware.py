"""Where a tier may run: accelerator, device counts, node pool, tolerations, host resources."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from tierwright.api import patterns
from tierwright.api.base import ApiModel
from tierwright.api.markers import Atomic
from tierwright.api.scalars import LabelKey, LabelValue, Quantity


class Accelerator(StrEnum):
    """Kinds of hardware that run the model."""

    NVIDIA = "nvidia"
    NEURON = "neuron"
    CPU = "cpu"


class LabelSelectorRequirement(ApiModel):
    """One condition on node labels."""

    key: LabelKey
    """Label key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How the label is compared."""
    values: Annotated[list[LabelValue], Field(max_length=64), Atomic()] = []
    """Values to compare with; none for Exists and DoesNotExist, one number for Gt and Lt."""


class NodePool(ApiModel):
    """The nodes that the tier is pinned to; all conditions must hold."""

    match_labels: Annotated[dict[str, LabelValue], Field(max_length=32)] = {}
    """Labels that the node must have."""
    match_expressions: Annotated[list[LabelSelectorRequirement], Field(max_length=32), Atomic()] = []
    """Conditions on the node's labels."""


class Toleration(ApiModel):
    """A taint that the tier's pods tolerate."""

    key: Annotated[str, Field(max_length=317)] | None = None
    """Key of the taint; empty with operator Exists matches every taint."""
    operator: Literal["Exists", "Equal"] | None = None
    """Equal (the default) compares the value; Exists does not."""
    value: Annotated[str, Field(max_length=63)] | None = None
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; absent matches all effects."""
    toleration_seconds: Annotated[int, Field(ge=0, le=31_536_000)] | None = None
    """How long a NoExecute taint is tolerated."""


class HostResources(ApiModel):
    """What each pod asks of its host beside the accelerator."""

    cpu: Quantity | None = None
    """CPU cores, requested; no limit is set."""
    memory: Quantity | None = None
    """Host memory, requested and limited."""
    shared_memory: Quantity | None = None
    """Size of /dev/shm; counted into memory."""
    ephemeral_storage: Quantity | None = None
    """Local disk, requested and limited."""


class HardwareSpec(ApiModel):
    """Where the tier runs and what it takes there."""

    accelerator: Accelerator
    """nvidia, neuron (Inferentia2, Trainium) or cpu. Immutable."""
    count: Annotated[int, Field(ge=1, le=64)] | None = None
    """Devices per host: GPUs, Neuron chips, or cores with resourceName aws.amazon.com/neuroncore; absent for cpu."""
    hosts: Annotated[int, Field(ge=1, le=64)] = 1
    """Hosts per replica; more than one needs LeaderWorkerSet."""
    node_pool: NodePool = NodePool()
    """The nodes that the tier is pinned to."""
    tolerations: Annotated[list[Toleration], Field(max_length=32), Atomic()] = []
    """More taints to tolerate; the accelerator's usual taint is tolerated by default."""
    resources: HostResources = HostResources()
    """Host resources of each pod."""
    resource_name: Annotated[str, Field(pattern=patterns.RESOURCE_NAME, max_length=253)] | None = None
    """Extended resource to ask for, where it is not the device plugin's default."""
    topology_spread: Literal["Zone", "Host", "None"] | None = None
    """Spread replicas over zones or hosts where possible; default Host."""
