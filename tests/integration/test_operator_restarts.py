"""An operator that is killed or restarted at any moment goes on where it was, and writes nothing where all is well."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from dev.cluster import cluster as clusters
from dev.cluster.cluster import Cluster
from dev.cluster.kwok import nodes as kwok
from dev.cluster.nodes.pools import FAST
from tests.integration.live import (
    AUTO,
    Object,
    autoscaler,
    behaving,
    replicas,
    tier,
    wait_condition,
    wait_ready,
)
from tests.support.activity import wait_resyncs, writes
from tests.support.kubernetes import Kubernetes, fresh_namespace
from tests.support.operator_process import (
    ROOT,
    OperatorProcess,
    install_crd,
    operator_kubeconfig,
    running_operator,
    started_operator,
)
from tests.support.played_engines import played_engines
from tests.support.waiting import eventually, holds_for
from tierwright.capacity.state import load

pytestmark = pytest.mark.integration

QUICK = {"resync_seconds": "2", "autoscale_seconds": "2", "autoscale_state_seconds": "4"}
TIERS = sorted((ROOT / "tests" / "golden" / "tiers").glob("*.yaml"))


class Identity(NamedTuple):
    """A kubeconfig of the operator's account under the shipped role, and its user name."""

    kubeconfig: Path
    user: str


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """A cluster without another operator, and with room for many tiers."""
    with clusters.cluster(name=f"restarts-{os.getpid()}", nodes="kwok", use_given=False) as running:
        more, api = kwok.pool_nodes(FAST, 3, first=2), running.api()
        kwok.create_nodes(api, more)
        kwok.wait_ready(api, more, [])
        api.close()
        yield running


@pytest.fixture(scope="module")
def identity(own: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Identity:
    """The shipped identity, installed."""
    admin = Kubernetes(own.kubeconfig)
    install_crd(admin)
    found = Identity(*operator_kubeconfig(admin, own.helm, tmp_path_factory.mktemp("identity")))
    admin.close()
    return found


@pytest.fixture
def user(own: Cluster) -> Iterator[Kubernetes]:
    """A user with a fresh namespace."""
    with fresh_namespace(own.kubeconfig) as somebody:
        yield somebody


def kill(operator: OperatorProcess) -> None:
    """End it as a node does that loses power."""
    operator.process.send_signal(signal.SIGKILL)
    operator.process.wait(timeout=10)


def zoo() -> dict[str, Object]:
    """Tiers of many shapes by name, each with a speed of its own; all of them settle."""
    golden = {f"golden-{index}": yaml.safe_load(path.read_text()) for index, path in enumerate(TIERS)}
    for each in golden.values():
        each["spec"]["model"]["name"] += "-golden"
        each["spec"]["hardware"].pop("nodePool", None)
    shapes: dict[str, dict[str, Any]] = {
        "plain": {},
        "auto": {"scaling": AUTO},
        "suspended": {"suspend": True},
        "zero": {"replicas": 0},
        "scaled": {"replicas": 1},
        "volumes": {
            "cache": {
                "weights": {"size": "1Gi", "storageClassName": "shared"},
                "compile": {"size": "1024Mi", "sharing": "PerReplica"},
            }
        },
        "patched": {
            "podTemplate": {
                "spec": {
                    "hostNetwork": False,
                    "tolerations": [{"key": "a", "operator": "Exists"}],
                    "containers": [
                        {"name": "side", "image": "busybox", "resources": {"limits": {"cpu": "0.5"}}}
                    ],
                }
            }
        },
        "odd": {
            "engine": {"type": "vllm", "env": [{"name": "EMPTY", "value": ""}], "extraArgs": []},
            "rollout": {"maxSurge": "0", "maxUnavailable": "50%", "startupTimeout": "90m"},
            "pod": {"serviceAccount": {"annotations": {"example.com/role": ""}}},
        },
        "l" * 253: {},
    }
    made = {
        name: tier(name, **{"speed": f"s{index}", **spec})
        for index, (name, spec) in enumerate(shapes.items())
    }
    for name, each in golden.items():
        made[name] = {**each, "metadata": {"name": name}}
    return made


def test_settled_tiers_of_every_shape_cost_no_write_over_ten_resyncs_and_a_restart(
    own: Cluster, user: Kubernetes, identity: Identity, tmp_path: Path
) -> None:
    """LLMKube#1139: two code paths disagreed on a claim's name, and the generation passed 26,000."""
    tiers = zoo()

    def written() -> list[str]:
        return writes(own.audit_log, identity.user, user.namespace)

    def versions() -> dict[tuple[str, str], str]:
        kinds = ("Deployment", "Service", "PersistentVolumeClaim", "ServiceAccount", "InferenceTier")
        return {
            (kind, each["metadata"]["name"]): each["metadata"]["resourceVersion"]
            for kind in kinds
            for each in user.list(kind)
        }

    with running_operator(identity.kubeconfig, identity.user, tmp_path, **QUICK) as operator:
        for manifest in tiers.values():
            user.apply(manifest)
        target = {"apiVersion": "tierwright.dev/v1alpha1", "kind": "InferenceTier", "name": "scaled"}
        user.create(autoscaler(target, 2, 3))
        for name in tiers:
            if not name.startswith("golden"):  # those ask for claims and classes that are not here, for ever
                wait_ready(user, name)
        eventually(
            lambda: user.must_get("InferenceTier", "scaled")["status"]["ready"] == "2/2", "the HPA acted"
        )

        def at_rest() -> bool:
            so_far = len(written())
            wait_resyncs(operator, 4)
            return len(written()) == so_far

        eventually(at_rest, "all that was to say is said", deadline_s=180)
        before, state = len(written()), versions()
        wait_resyncs(operator, 10)
        assert "\n".join(written()[before:]) == ""
        kill(operator)
    with running_operator(identity.kubeconfig, identity.user, tmp_path, **QUICK) as operator:
        wait_resyncs(operator, 2)
        assert "\n".join(written()[before:]) == "", "a restart rewrites nothing"
        assert versions() == state
        assert 'code="403"' not in operator.get("/metrics"), "the shipped role is enough"


def test_rollout_goes_on_after_the_operator_was_killed_in_the_middle(
    own: Cluster, user: Kubernetes, identity: Identity, tmp_path: Path
) -> None:
    slow = {"kwok.tierwright.dev/startup-seconds": "2"}
    with running_operator(identity.kubeconfig, identity.user, tmp_path, **QUICK) as operator:
        user.apply(tier(replicas=3, podTemplate=behaving("", **slow)))
        wait_ready(user)
        user.apply(
            tier(replicas=3, podTemplate=behaving("", **slow), engine={"type": "vllm", "maxModelLen": 4096})
        )
        eventually(lambda: len(user.list("ReplicaSet")) == 2, "the rollout has begun")
        wait_condition(user, "Reconciling", "True", "RollingOut")
        kill(operator)
    user.patch("InferenceTier", "llama-fast", {"spec": {"replicas": 2}})
    seen: set[int] = set()
    with running_operator(identity.kubeconfig, identity.user, tmp_path, **QUICK):

        def done() -> bool:
            pods = [each for each in user.list("Pod") if not each["metadata"].get("deletionTimestamp")]
            seen.add(len(pods))
            return len(pods) == 2 and all("4096" in str(each["spec"]["containers"]) for each in pods)

        eventually(done, "two pods of the new spec")
        wait_ready(user)
        assert max(seen) <= 3, "with maxSurge 0 there is never a pod too many"
        assert len(user.list("Deployment")) == 1
        assert user.must_get("InferenceTier", "llama-fast")["status"]["ready"] == "2/2"


def test_operator_killed_while_it_makes_children_makes_the_rest_and_nothing_twice(
    own: Cluster, user: Kubernetes, identity: Identity, tmp_path: Path
) -> None:
    names = [f"t{index}" for index in range(6)]
    with started_operator(identity.kubeconfig, identity.user, tmp_path, **QUICK) as operator:
        eventually(operator.is_ready, "the operator is ready")
        for name in names:
            user.apply(tier(name, speed=name))
        eventually(
            lambda: user.list("ServiceAccount", "app.kubernetes.io/managed-by=tierwright"), "it has begun"
        )
        kill(operator)
    with running_operator(identity.kubeconfig, identity.user, tmp_path, **QUICK):
        for name in names:
            wait_ready(user, name)
        assert len(user.list("Deployment")) == len(names)
        assert len(user.list("ReplicaSet")) == len(names), "no Deployment was changed after it was made"
        assert len(user.list("Pod")) == len(names)
        owners = {each["metadata"]["name"]: each["metadata"]["uid"] for each in user.list("InferenceTier")}
        for each in user.list("Service", "app.kubernetes.io/managed-by=tierwright"):
            reference = each["metadata"]["ownerReferences"][0]
            assert owners[reference["name"]] == reference["uid"]


def test_what_happened_while_no_operator_ran_is_caught_up(
    own: Cluster, user: Kubernetes, identity: Identity, tmp_path: Path
) -> None:
    with running_operator(identity.kubeconfig, identity.user, tmp_path, **QUICK):
        user.apply(tier("stays", speed="a"))
        user.apply(tier("goes", speed="b"))
        wait_ready(user, "stays")
        wait_ready(user, "goes")
    user.delete("Deployment", "stays")
    user.delete("InferenceTier", "goes")
    user.patch("InferenceTier", "stays", {"spec": {"replicas": 2}})
    eventually(lambda: user.get("Deployment", "goes") is None, "the collector does not need the operator")
    with running_operator(identity.kubeconfig, identity.user, tmp_path, **QUICK):
        eventually(
            lambda: user.must_get("InferenceTier", "stays")["status"]["ready"] == "2/2", "two pods are ready"
        )
        holds_for(lambda: user.get("Deployment", "goes") is None, "nothing of the deleted tier comes back", 2)


@pytest.mark.parametrize("learned", ["kept", "damaged", "lost"])
def test_operator_killed_in_a_ramp_goes_on_and_takes_no_replica(
    own: Cluster, user: Kubernetes, identity: Identity, tmp_path: Path, learned: str
) -> None:
    """kubeai#383: what was learned is kept or learned again, and nothing shrinks before a full window was seen."""
    scaling = {
        **AUTO,
        "minReplicas": 1,
        "objectives": {"timeToFirstToken": "500ms", "timePerOutputToken": "50ms"},
        "coldStart": "5s",
        "scaleDown": {"stabilization": "1m"},
    }
    name = "llama-fast-autoscaler"
    with played_engines(user) as engines:
        with running_operator(identity.kubeconfig, identity.user, tmp_path, **QUICK) as operator:
            engines.rates["llama-fast"] = 3.0
            user.apply(tier(scaling=scaling))
            wait_condition(user, "ScalingActive", "True")
            engines.rates["llama-fast"] = 40.0
            eventually(lambda: replicas(user) >= 3, "replicas for the load", 120)
            eventually(lambda: user.get("ConfigMap", name), "what was learned is written")
            kill(operator)
        before = replicas(user)
        if learned == "damaged":
            user.patch("ConfigMap", name, {"data": {"state": '{"version": 1, "tier": [1, 2'}})
        elif learned == "lost":
            user.delete("ConfigMap", name)
        engines.rates["llama-fast"] = 1.0
        with running_operator(identity.kubeconfig, identity.user, tmp_path, **QUICK) as operator:
            holds_for(lambda: replicas(user) >= before, "nothing shrinks before a full window", seconds=40)
            assert user.condition("llama-fast", "ScalingActive")["status"] == "True"
            written = eventually(lambda: user.get("ConfigMap", name), "it is written again") or {}
            assert load(written["data"]["state"]) is not None
