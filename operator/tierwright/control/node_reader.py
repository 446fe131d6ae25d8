"""Reads the nodes from time to time, for pools whose size is taken from them; their absence or a refusal limits nothing."""

import asyncio
import logging
from functools import partial
from typing import Final

from tierwright.control.pools import Pools
from tierwright.kube.errors import KubeError
from tierwright.kube.resources import NODE, Object
from tierwright.kube.verbs import KubeClient
from tierwright.observe.nodes import node_view

log = logging.getLogger(__name__)

EVERY: Final = 30.0
"""Seconds between two readings; a node that comes or goes is no matter of seconds."""
_PAGE: Final = 200
_METADATA: Final = ("name", "labels")
_SPEC: Final = ("taints", "unschedulable")
_STATUS: Final = ("allocatable", "conditions")


class NodeReader:
    """Gives the pools what the nodes hold."""

    def __init__(self, client: KubeClient, pools: Pools) -> None:
        self._client = client
        self._pools = pools
        self._said = ""

    async def run(self, every: float = EVERY) -> None:
        """Read until cancelled."""
        while True:
            await self.read()
            await asyncio.sleep(every)

    async def read(self) -> None:
        """Read once. What cannot be read is not known: pods that wait for a node still clip."""
        try:
            nodes = await self._client.list(NODE, limit=_PAGE, keep=_slim)
        except KubeError as error:
            self._pools.nodes = None
            if str(error) != self._said:
                log.warning(
                    "the nodes cannot be read, so only pods that wait tell that a pool is full: %s", error
                )
            self._said = str(error)
            return
        self._said = ""
        self._pools.nodes = [node_view(node) for node in nodes]


def _slim(node: Object) -> Object:
    """A node without its images and addresses, which are most of it."""
    keep = partial(_kept, node)
    return {
        "metadata": keep("metadata", _METADATA),
        "spec": keep("spec", _SPEC),
        "status": keep("status", _STATUS),
    }


def _kept(node: Object, part: str, names: tuple[str, ...]) -> Object:
    found = node.get(part) or {}
    return {name: found[name] for name in names if name in found}
