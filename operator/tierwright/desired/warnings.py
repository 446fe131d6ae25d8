"""Decides what is allowed but likely not meant: shown in the tier's status and by ``render``."""

from collections.abc import Iterator

from tierwright.api.tier import InferenceTier, TierSpec
from tierwright.desired.deployment import shares_single_node_volume, start_replicas


def tier_warnings(tier: InferenceTier) -> tuple[str, ...]:
    """One sentence for each doubt, with the field that it is about."""
    return tuple(_single_node_volume(tier.spec))


def _single_node_volume(spec: TierSpec) -> Iterator[str]:
    if not shares_single_node_volume(spec.cache):
        return
    if start_replicas(spec) > 1:
        yield (
            "spec.cache: all replicas share a volume that one node can mount; replicas on other nodes will wait "
            "for it. Use accessMode: ReadWriteMany or sharing: PerReplica"
        )
