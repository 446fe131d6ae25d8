"""Tells the ReplicaSet's controller which pods to remove, before a tier's replicas are lowered."""

import logging
from collections.abc import Mapping

from tierwright.control.victims import DELETION_COST, candidates_of, costs_to_write
from tierwright.kube.errors import ApiError, KubeError
from tierwright.kube.resources import POD, ObjectRef
from tierwright.kube.verbs import KubeClient
from tierwright.observe.managers import SCALER_MANAGER
from tierwright.observe.store import Store, TierKey

log = logging.getLogger(__name__)

_GONE = 404


class VictimWriter:
    """Writes deletion costs on pods."""

    def __init__(self, client: KubeClient, store: Store) -> None:
        self._client = client
        self._store = store

    async def mark(self, key: TierKey, left: int, requests: Mapping[str, float]) -> int:
        """Before `left` replicas are asked for: mark the pods that shall go. Returns how many pods were written.

        `requests` gives what each pod had to do when it was last asked; a pod that is not in it counts as busy, and where
        nothing is known of any pod nothing is written: the controller's own choice, the youngest, is as good. A choice
        that cannot be written is no reason to keep a replica: its requests end within drainTimeout all the same.
        """
        if not requests:
            return 0
        costs = costs_to_write(candidates_of(self._store.pods_of(*key), requests), left)
        written = 0
        for name, cost in costs.items():
            ref = ObjectRef(POD, key[0], name)
            body = {"metadata": {"annotations": {DELETION_COST: cost}}}
            try:
                pod = await self._client.patch(ref, body, manager=SCALER_MANAGER)
            except KubeError as error:
                if not (isinstance(error, ApiError) and error.status == _GONE):
                    log.warning("%s is not marked as the one to go: %s", ref, error)
                continue
            self._store.put(POD, pod)
            written += 1
        return written
