"""The tier's own volumes: weights and compiled artefacts."""

from typing import Literal

from tierwright.api.base import ApiModel
from tierwright.api.scalars import ObjectName, Quantity

AccessMode = Literal["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]
Sharing = Literal["Shared", "PerReplica"]
ReclaimPolicy = Literal["Retain", "Delete"]


class WeightsCache(ApiModel):
    """Volume for the model's weights."""

    size: Quantity
    """Size; may grow, never shrink."""
    storage_class_name: ObjectName | None = None
    """Storage class; default: the cluster's default class."""
    access_mode: AccessMode = "ReadWriteOnce"
    """How the volume may be mounted; several replicas share it only with ReadWriteMany."""
    sharing: Sharing = "Shared"
    """Shared: one volume for all replicas. PerReplica: a volume that lives and dies with each pod."""
    reclaim_policy: ReclaimPolicy | None = None
    """Of a shared volume. Retain (the default): outlives the tier, is adopted by a tier of the same name. Delete: goes with the tier."""

    @property
    def retained(self) -> bool:
        """Whether the volume outlives the tier."""
        return self.sharing == "Shared" and self.reclaim_policy != "Delete"


class CompileCache(ApiModel):
    """Volume for compiled artefacts (torch.compile, XLA, NEFF)."""

    size: Quantity
    """Size; may grow, never shrink."""
    storage_class_name: ObjectName | None = None
    """Storage class; default: the cluster's default class."""
    access_mode: AccessMode = "ReadWriteOnce"
    """How the volume may be mounted; several replicas share it only with ReadWriteMany."""
    sharing: Sharing = "PerReplica"
    """PerReplica: a volume that lives and dies with each pod. Shared: one volume for all replicas."""
    reclaim_policy: ReclaimPolicy | None = None
    """Of a shared volume. Delete (the default): goes with the tier. Retain: outlives the tier, is adopted by a tier of the same name."""

    @property
    def retained(self) -> bool:
        """Whether the volume outlives the tier."""
        return self.sharing == "Shared" and self.reclaim_policy == "Retain"


class CacheSpec(ApiModel):
    """This tier's own volumes; never shared with another speed."""

    weights: WeightsCache | None = None
    """Weights; absent: an emptyDir that is filled at each start, unless the source is a volume already."""
    compile: CompileCache | None = None
    """Compiled artefacts; absent: an emptyDir."""
