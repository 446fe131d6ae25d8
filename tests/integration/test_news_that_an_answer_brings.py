"""An edit that the operator first sees in the answer to its own write is acted upon, though its event comes too late."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from tests.integration.live import NAME, replicas, tier
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually
from tierwright.control.kinds import INFERENCE_TIER
from tierwright.control.outcome import RequeueAfter
from tierwright.control.reconcile import Reconciler
from tierwright.desired.labels import TIER_LABEL
from tierwright.desired.names import label_value
from tierwright.kube.client import HttpKubeClient
from tierwright.kube.events import EventRecorder
from tierwright.kube.resources import DEPLOYMENT, POD
from tierwright.observe.store import Store, TierKey
from tierwright.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster

pytestmark = pytest.mark.integration

SOON = 1.0


@dataclass(frozen=True)
class WithoutWatches:
    """What reconciles, on a store that learns only what the test and the operator's own requests put into it."""

    store: Store
    reconciler: Reconciler

    async def settle(self, key: TierKey) -> None:
        """Reconcile as often as the reconciler asks to be called again soon."""
        while isinstance(outcome := await self.reconciler.reconcile(key), RequeueAfter):
            if outcome.seconds > SOON:
                return
            await asyncio.sleep(outcome.seconds)


@pytest.fixture
async def blind(cluster: "Cluster", crd: None) -> AsyncIterator[WithoutWatches]:
    metrics = Metrics(CollectorRegistry(), "test")
    client = await HttpKubeClient.connect(str(cluster.kubeconfig))
    store = Store(INFERENCE_TIER, label_value, TIER_LABEL)

    def now() -> datetime:
        return datetime.now(UTC)

    recorder = EventRecorder(client, metrics, now)
    try:
        yield WithoutWatches(store, Reconciler(client, store, recorder, now, metrics=metrics))
    finally:
        await client.close()


async def test_edit_seen_in_the_answer_to_a_status_write_is_not_lost(
    k8s: Kubernetes, blind: WithoutWatches
) -> None:
    key = (k8s.namespace, NAME)
    blind.store.put(INFERENCE_TIER, k8s.apply(tier()))
    await blind.settle(key)
    assert replicas(k8s) == 1

    def pod_is_ready() -> bool:
        return bool(k8s.must_get("Deployment", NAME)["status"].get("readyReplicas"))

    eventually(pod_is_ready, "the pod is ready")
    k8s.patch("InferenceTier", NAME, {"spec": {"replicas": 3}})
    # No word of the edit; but the tier is ready now, so its status is written, and the answer holds the edit.
    blind.store.put(DEPLOYMENT, k8s.must_get("Deployment", NAME))
    for pod in k8s.list("Pod"):
        blind.store.put(POD, pod)
    await blind.settle(key)
    assert replicas(k8s) == 3
