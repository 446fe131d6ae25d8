"""What the autoscaler has learned is not overwritten where it cannot be read, nor by a second operator, and two of them take no replica that either would keep."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from dev.cluster import cluster as clusters
from dev.cluster.cluster import Cluster
from tests.integration.live import NAME, Object, events, replicas, tier, wait_condition, wait_ready
from tests.support.kubernetes import Kubernetes, fresh_namespace
from tests.support.operator_process import (
    OperatorProcess,
    install_crd,
    operator_kubeconfig,
    running_operator,
)
from tests.support.played_engines import PlayedEngines, played_engines
from tests.support.waiting import eventually, holds_for
from tierwright.capacity.state import load
from tierwright.control import scaler
from tierwright.kube.client import HttpKubeClient
from tierwright.kube.errors import ApiError
from tierwright.observe.managers import SCALER_MANAGER

pytestmark = pytest.mark.integration

QUICK = {"resync_seconds": "2", "autoscale_seconds": "1", "autoscale_state_seconds": "4"}
STATE = f"{NAME}-autoscaler"
ROLE = "tierwright-operator"
SCALING = {
    "mode": "Auto",
    "minReplicas": 1,
    "maxReplicas": 8,
    "objectives": {"timeToFirstToken": "500ms", "timePerOutputToken": "50ms"},
    "coldStart": "5s",
    "scaleDown": {"stabilization": "20s"},
}


class Identity(NamedTuple):
    """A kubeconfig of the operator's account under the shipped role, and its user name."""

    kubeconfig: Path
    user: str


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """A cluster without another operator."""
    if name := os.environ.get("TIERWRIGHT_TEST_CLUSTER"):
        yield clusters.attach(name)
        return
    with clusters.cluster(name=f"learned-{os.getpid()}", nodes="kwok", use_given=False) as running:
        yield running


@pytest.fixture(scope="module")
def root(own: Cluster) -> Iterator[Kubernetes]:
    """The cluster's administrator, once the CRD is there."""
    admin = Kubernetes(own.kubeconfig)
    install_crd(admin)
    yield admin
    admin.close()


@pytest.fixture(scope="module")
def identity(own: Cluster, root: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Identity:
    """The shipped identity, installed."""
    return Identity(*operator_kubeconfig(root, own.helm, tmp_path_factory.mktemp("identity")))


@pytest.fixture
def user(own: Cluster, root: Kubernetes) -> Iterator[Kubernetes]:
    """A user with a fresh namespace."""
    with fresh_namespace(own.kubeconfig) as somebody:
        yield somebody


def slots(k8s: Kubernetes) -> int:
    """Slots of the forecast in the state that lies in the cluster."""
    state = load(k8s.must_get("ConfigMap", STATE)["data"]["state"])
    assert state is not None
    return state.forecast.slots


def grown(k8s: Kubernetes, engines: PlayedEngines, most: int = 8) -> int:
    """The replicas of a tier that has followed its load up."""
    engines.rates[NAME] = 3.0
    k8s.apply(tier(scaling={**SCALING, "maxReplicas": most}))
    wait_condition(k8s, "ScalingActive", "True")
    engines.rates[NAME] = 25.0
    eventually(lambda: replicas(k8s) >= 3, "replicas for the load", 120)
    wait_ready(k8s)
    return replicas(k8s)


def without_reading(role: Object, resource: str) -> list[Object]:
    """The role's rules but for the right to get this resource."""
    rules = []
    for rule in role["rules"]:
        if resource in rule["resources"] and "get" in rule["verbs"]:
            others = [each for each in rule["resources"] if each != resource]
            rules += [{**rule, "resources": others}] if others else []
            rules.append(
                {**rule, "resources": [resource], "verbs": [each for each in rule["verbs"] if each != "get"]}
            )
        else:
            rules.append(rule)
    return rules


def test_a_state_that_may_not_be_read_is_told_and_left_and_the_tier_holds(
    root: Kubernetes, user: Kubernetes, identity: Identity, tmp_path: Path
) -> None:
    role = root.must_get("ClusterRole", ROLE)
    with played_engines(user) as engines:
        with running_operator(identity.kubeconfig, identity.user, tmp_path, **QUICK):
            before = grown(user, engines)
            eventually(lambda: user.get("ConfigMap", STATE) and slots(user) > 0, "a slot is written", 150)
        kept = user.must_get("ConfigMap", STATE)
        engines.rates[NAME] = 1.0
        root.patch("ClusterRole", ROLE, {"rules": without_reading(role, "configmaps")})
        try:
            with running_operator(identity.kubeconfig, identity.user, tmp_path, **QUICK):
                told = wait_condition(user, "ScalingActive", "True", "LearnedStateUnreadable", deadline_s=120)
                assert "forbidden" in told["message"]
                eventually(lambda: events(user, "LearnedStateUnreadable"), "the Event of it")
                holds_for(lambda: replicas(user) >= before, "nothing shrinks", seconds=45)
                now = user.must_get("ConfigMap", STATE)
                assert now["metadata"]["resourceVersion"] == kept["metadata"]["resourceVersion"]
                root.patch("ClusterRole", ROLE, {"rules": role["rules"]})
                eventually(
                    lambda: user.condition(NAME, "ScalingActive")["reason"] != "LearnedStateUnreadable",
                    "it is read once that is allowed again",
                    90,
                )
                eventually(lambda: replicas(user) < before, "the load decides again", 120)
        finally:
            root.patch("ClusterRole", ROLE, {"rules": role["rules"]})


async def test_fewer_replicas_of_a_workload_that_has_changed_since_are_refused(
    own: Cluster, user: Kubernetes, identity: Identity, tmp_path: Path
) -> None:
    with running_operator(identity.kubeconfig, identity.user, tmp_path, **QUICK):
        user.apply(tier(replicas=3))
        wait_ready(user)
    seen = user.must_get("Deployment", NAME)
    user.patch("Deployment", NAME, {"spec": {"replicas": 5}})
    client = await HttpKubeClient.connect(str(own.kubeconfig))
    try:
        with pytest.raises(ApiError) as refused:
            await client.apply(scaler.scale_manifest(seen, 2), manager=SCALER_MANAGER)
        assert (refused.value.status, replicas(user)) == (409, 5)
        await client.apply(scaler.scale_manifest(seen, 6), manager=SCALER_MANAGER)
        assert replicas(user) == 6, "more is never held up"
    finally:
        await client.close()


def freeze(operator: OperatorProcess) -> None:
    """Let it stand still, as a node does whose memory is swapped out."""
    operator.process.send_signal(signal.SIGSTOP)


def test_two_operators_at_once_take_no_replica_that_either_would_keep(
    user: Kubernetes, identity: Identity, tmp_path: Path
) -> None:
    """kubeai#67: what was the leader once acts on what it knew then."""
    first_folder, second_folder = tmp_path / "first", tmp_path / "second"
    for each in (first_folder, second_folder):
        each.mkdir()
    with (
        played_engines(user) as engines,
        running_operator(identity.kubeconfig, identity.user, first_folder, **QUICK) as first,
    ):
        assert grown(user, engines, most=6) <= 6
        freeze(first)
        try:
            user.patch("InferenceTier", NAME, {"spec": {"scaling": {"maxReplicas": 8}}})
            engines.rates[NAME] = 90.0
            with running_operator(identity.kubeconfig, identity.user, second_folder, **QUICK):
                eventually(lambda: replicas(user) == 8, "the second one has asked for all there may be", 90)
                first.process.send_signal(signal.SIGCONT)
                holds_for(lambda: replicas(user) == 8, "the first one takes none of them away", seconds=25)
                engines.rates[NAME] = 1.0
                eventually(lambda: replicas(user) < 8, "both see that less comes", 150)
                holds_for(lambda: replicas(user) >= 7, "one goes, and not one for each of them", seconds=30)
        finally:
            first.process.send_signal(signal.SIGCONT)
