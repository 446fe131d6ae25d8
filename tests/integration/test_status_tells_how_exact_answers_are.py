"""On a real API server: what a tier's pods measured of their answers' exactness stands in its status, with no objectives set."""

from typing import TYPE_CHECKING

import pytest

from tests.integration.live import NAME, Object, tier
from tests.support.activity import wait_resyncs, writes, writes_at_rest
from tests.support.kubernetes import Kubernetes
from tests.support.played_engines import played_engines
from tests.support.waiting import eventually
from tests.unit.observe.test_exactness_of_an_engine_is_read import told

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster
    from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.integration


def shown(k8s: Kubernetes) -> Object | None:
    """What the status tells of it."""
    found: Object | None = k8s.must_get("InferenceTier", NAME).get("status", {}).get("exactness")
    return found


def test_which_holds_stands_in_the_status_and_costs_no_write_afterwards(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess"
) -> None:
    with played_engines(k8s) as engines:
        engines.more = told(1.0, 1.0)
        k8s.apply(tier(engine={"type": "jax"}, replicas=1))
        eventually(lambda: shown(k8s) == {"rowExact": True, "agreement": "100%"}, "the status tells", 90)
        before = writes_at_rest(cluster.audit_log, operator, k8s.namespace)
        wait_resyncs(operator, 5)
        assert writes(cluster.audit_log, operator.user, k8s.namespace) == before
        # Pods of another number format take the place of the first ones.
        engines.more = told(0.0, 0.985)
        k8s.apply(tier(engine={"type": "jax", "dtype": "float32"}, replicas=1))
        near = {"rowExact": False, "agreement": "98.5%"}
        eventually(lambda: shown(k8s) == near, "the new pods' figure is told", 90)
