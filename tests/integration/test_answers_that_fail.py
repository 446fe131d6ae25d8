"""The API server throttles, fails, answers late or loses connections: tiers settle, and nothing is lost or doubled.

The operator speaks to the server through a proxy that does this to single requests (rule 13).
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from dev.cluster import cluster as clusters
from dev.cluster.cluster import Cluster
from tests.integration.live import NAME, tier, wait_condition, wait_ready
from tests.support.activity import writes
from tests.support.faulty_api import Fault, FaultyApi, faulty_api
from tests.support.kubernetes import Kubernetes, fresh_namespace
from tests.support.operator_process import (
    OperatorProcess,
    install_crd,
    operator_kubeconfig,
    running_operator,
)
from tests.support.waiting import eventually, holds_for

pytestmark = pytest.mark.integration

CHILDREN = {"ServiceAccount": 1, "NetworkPolicy": 1, "Service": 2, "PodDisruptionBudget": 1, "Deployment": 1}
OURS = "app.kubernetes.io/managed-by=tierwright"


class Through(NamedTuple):
    """An operator and what stands between it and the API server."""

    operator: OperatorProcess
    api: FaultyApi


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """A cluster without another operator."""
    with clusters.cluster(name=f"faults-{os.getpid()}", nodes="kwok", use_given=False) as running:
        yield running


@pytest.fixture(scope="module")
def through(own: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Through]:
    """One operator for all tests of this file, with no resync that would mend what a test breaks."""
    folder: Path = tmp_path_factory.mktemp("faults")
    admin = Kubernetes(own.kubeconfig)
    install_crd(admin)
    kubeconfig, user = operator_kubeconfig(admin, own.helm, folder)
    admin.close()
    with (
        faulty_api(kubeconfig, folder) as (api, path),
        running_operator(path, user, folder, resync_seconds="300", request_timeout_seconds="2") as operator,
    ):
        yield Through(operator, api)


@pytest.fixture
def user(own: Cluster, through: Through) -> Iterator[Kubernetes]:
    """A user with a fresh namespace."""
    with fresh_namespace(own.kubeconfig) as somebody:
        yield somebody


def made_once(user: Kubernetes, tiers: int = 1) -> None:
    """Every child is there, no more than wanted, and no Deployment was changed after it was made."""
    for kind, count in CHILDREN.items():
        assert len(user.list(kind, OURS)) == count * tiers, kind
    assert len(user.list("ReplicaSet")) == tiers
    assert len(user.list("Pod")) == tiers


def test_server_that_throttles_is_left_alone_as_long_as_it_asks(user: Kubernetes, through: Through) -> None:
    busy = through.api.inject(
        Fault("PATCH", f"{user.namespace}/deployments/", 2, status=429, headers={"Retry-After": "3"})
    )
    user.apply(tier())
    eventually(lambda: busy.met, "the server has throttled")
    said = wait_condition(user, "Reconciling", "True", "APIUnavailable")["message"]
    assert "429" in said
    assert user.list("Service", OURS), "the other children are there"
    wait_ready(user)
    first, second = busy.met
    assert second - first >= 3.0
    made_once(user)


@pytest.mark.parametrize("status", [500, 503, 504])
def test_server_that_fails_is_asked_again(user: Kubernetes, through: Through, status: int) -> None:
    fails = through.api.inject(Fault("PATCH", f"{user.namespace}/services/", 3, status=status))
    user.apply(tier())
    wait_ready(user)
    assert len(fails.met) == 3
    assert user.condition(NAME, "Stalled")["status"] == "False"
    made_once(user)


@pytest.mark.parametrize("how", ["lose request", "lose answer"])
def test_write_that_nobody_knows_about_is_made_once(
    own: Cluster, user: Kubernetes, through: Through, how: str
) -> None:
    lost = [
        through.api.inject(Fault("PATCH", path, 1, "lose answer" if how == "lose answer" else "lose request"))
        for path in (
            f"{user.namespace}/deployments/",
            f"{user.namespace}/services/",
            f"{user.namespace}/.*/status",
        )
    ]
    user.apply(tier())
    wait_ready(user)
    assert all(each.met for each in lost)
    made_once(user)
    created = [
        each for each in writes(own.audit_log, through.operator.user, user.namespace) if " 201" in each
    ]
    assert len(created) == len({each.rpartition(" ")[0] for each in created}), "nothing was made twice"


def test_answer_that_comes_too_late_is_not_waited_for(user: Kubernetes, through: Through) -> None:
    late = through.api.inject(Fault("PATCH", f"{user.namespace}/deployments/", 1, "delay", seconds=4.0))
    user.apply(tier())
    wait_ready(user)
    assert len(late.met) == 1
    made_once(user)


def test_events_of_a_watch_that_was_cut_are_not_missed(user: Kubernetes, through: Through) -> None:
    user.apply(tier())
    wait_ready(user)
    for number in range(3):
        assert through.api.cut_watches() > 0
        user.delete("Service", NAME)
        user.patch("InferenceTier", NAME, {"spec": {"replicas": 2 + number}})
        eventually(lambda: user.get("Service", NAME), "what was deleted meanwhile is back", deadline_s=30)
        wait_ready(user)
        eventually(lambda number=number: len(user.list("Pod")) == 2 + number, "the edit was seen")  # type: ignore[misc]


def test_watches_that_cannot_start_again_are_told_in_one_line_and_tried_until_they_can(
    user: Kubernetes, through: Through
) -> None:
    """A refusal in the middle of kopf's discovery once left it waiting for ever, with no watch and no word."""
    user.apply(tier())
    wait_ready(user)
    written = len(through.operator.log.read_text().splitlines())
    faults = [
        through.api.inject(Fault("GET", r"/deployments\?.*watch=true", 1, status=400)),
        through.api.inject(Fault("GET", r"^/api$", 1, status=400)),
        through.api.inject(Fault("GET", r"^/apis/apps/v1$", 1, status=400)),
    ]
    assert through.api.cut_watches() > 0
    eventually(lambda: faults[1].met, "the watches were started anew")
    user.delete("Service", NAME)
    eventually(lambda: user.get("Service", NAME), "what happens is seen again")
    user.delete("Deployment", NAME)
    wait_ready(user)
    log = through.operator.log.read_text().splitlines()[written:]
    told = [line for line in log if "watching failed and starts anew" in line]
    assert 1 <= len(told) <= 4, log
    assert "400" in told[0]
    assert not [line for line in log if "Traceback" in line]
    assert len(log) < 30, log


def test_storm_of_all_of_it_ends_in_what_was_asked_for(
    own: Cluster, user: Kubernetes, through: Through
) -> None:
    rng, names = random.Random(20260330), [f"t{index}" for index in range(6)]
    for _ in range(40):
        kind = rng.choice(["deployments", "services", "serviceaccounts", "networkpolicies", "inferencetiers"])
        fault = Fault(
            rng.choice(["PATCH", "PATCH", "GET"]),
            f"{user.namespace}/{kind}/",
            1,
            rng.choice(["answer", "answer", "lose request", "lose answer"]),
            status=rng.choice([429, 500, 502, 503]),
        )
        through.api.inject(fault)
    for name in names:
        user.apply(tier(name, speed=name))
    through.api.cut_watches()
    for name in names:
        wait_ready(user, name)
    made_once(user, len(names))
    before = len(writes(own.audit_log, through.operator.user, user.namespace))

    def silent() -> bool:
        return len(writes(own.audit_log, through.operator.user, user.namespace)) == before

    holds_for(silent, "all is said and done", seconds=3)
