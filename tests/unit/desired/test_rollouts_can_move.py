"""A rollout moves on a full pool, waits for slow starts, drains, and never kills what only loads."""

from typing import Any

import pytest

from tests.support.tier_bundles import bundle_of, engine_container, flag, manifest, pod_spec, tier
from tierwright.api.rollout import RolloutSpec
from tierwright.api.tier import InferenceTier
from tierwright.desired.budgets import budgets


def strategy(wanted: InferenceTier) -> dict[str, Any]:
    found: dict[str, Any] = manifest(bundle_of(wanted), "Deployment")["spec"]["strategy"]
    return found


def test_one_replica_on_a_full_pool_can_be_replaced() -> None:
    assert strategy(tier()) == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
    }


@pytest.mark.parametrize(
    ("rollout", "steps"),
    [
        ({"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": 1, "maxUnavailable": 0}),
        ({"maxSurge": "25%"}, {"maxSurge": "25%", "maxUnavailable": 1}),
        ({"maxUnavailable": "50%"}, {"maxSurge": 0, "maxUnavailable": "50%"}),
    ],
)
def test_the_users_steps_are_honoured(rollout: dict[str, Any], steps: dict[str, Any]) -> None:
    assert strategy(tier(rollout=rollout))["rollingUpdate"] == steps


@pytest.mark.parametrize("purpose", ["weights", "compile"])
@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteOncePod"])
def test_a_volume_that_one_node_mounts_is_given_up_before_the_next_pod_wants_it(
    purpose: str, mode: str
) -> None:
    cache = {purpose: {"size": "1Gi", "accessMode": mode, "sharing": "Shared"}}
    assert strategy(tier(cache=cache)) == {"type": "Recreate"}


@pytest.mark.parametrize(
    "weights",
    [{"size": "1Gi", "accessMode": "ReadWriteMany"}, {"size": "1Gi", "sharing": "PerReplica"}],
)
def test_volumes_that_do_not_bind_replicas_together_roll(weights: dict[str, Any]) -> None:
    assert strategy(tier(cache={"weights": weights}))["type"] == "RollingUpdate"


@pytest.mark.parametrize("wanted", ["Recreate", "RollingUpdate"])
def test_the_users_strategy_is_honoured(wanted: str) -> None:
    cache = {"weights": {"size": "1Gi"}}
    assert strategy(tier(cache=cache, rollout={"strategy": wanted}))["type"] == wanted


@pytest.mark.parametrize("timeout", ["10s", "45s", "2m", "30m", "75m", "24h"])
def test_the_startup_budget_is_what_the_user_asks_for(timeout: str) -> None:
    wanted = RolloutSpec(startup_timeout=timeout)
    probe = engine_container(tier(rollout={"startupTimeout": timeout}))["startupProbe"]
    budget = probe["periodSeconds"] * probe["failureThreshold"]
    asked = budgets(wanted, fetches=False).startup
    assert asked <= budget < asked + probe["periodSeconds"]
    assert 1 <= probe["periodSeconds"] <= 10


def test_a_short_budget_is_probed_finely() -> None:
    probe = engine_container(tier(rollout={"startupTimeout": "60s"}))["startupProbe"]
    assert probe["periodSeconds"] == 2
    assert probe["timeoutSeconds"] == 2


def test_a_budget_below_a_second_still_probes() -> None:
    assert budgets(RolloutSpec(startup_timeout="200ms"), fetches=False).startup == 1


def test_big_models_are_not_killed_by_a_fixed_delay() -> None:
    container = engine_container(tier(rollout={"startupTimeout": "75m"}))
    assert "initialDelaySeconds" not in container["livenessProbe"]
    liveness = container["livenessProbe"]
    assert liveness["periodSeconds"] * liveness["failureThreshold"] <= 60


def test_probes_ask_the_port_that_the_engine_listens_on() -> None:
    container = engine_container(tier())
    (port,) = container["ports"]
    assert flag(container["args"], "--port") == str(port["containerPort"])
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[name]["httpGet"] == {"path": "/health", "port": port["name"]}


@pytest.mark.parametrize("accelerator", ["nvidia", "neuron", "cpu"])
def test_the_engine_drains_before_the_kubelet_kills_it(accelerator: str) -> None:
    wanted = tier(accelerator, rollout={"drainTimeout": "90s"})
    pod, container = pod_spec(wanted), engine_container(wanted)
    sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert flag(container["args"], "--shutdown-timeout") == "90"
    assert pod["terminationGracePeriodSeconds"] > sleep + 90


def test_a_part_of_a_second_is_not_cut_off_the_drain() -> None:
    assert budgets(RolloutSpec(drain_timeout="1500ms"), fetches=False).drain == 2


@pytest.mark.parametrize("source", ["hf://a/b", "file:///models/m"])
def test_a_rollout_is_not_called_failed_while_its_pods_may_still_start(source: str) -> None:
    wanted = tier(
        model={"name": "m", "source": source}, rollout={"startupTimeout": "2h", "drainTimeout": "1h"}
    )
    deadline = manifest(bundle_of(wanted), "Deployment")["spec"]["progressDeadlineSeconds"]
    assert deadline > 7200 + 3600


def test_time_to_fetch_weights_counts_as_progress() -> None:
    rollout = RolloutSpec()
    assert budgets(rollout, fetches=True).progress > budgets(rollout, fetches=False).progress


def test_a_drain_is_never_blocked_by_a_broken_pod() -> None:
    spec = manifest(bundle_of(tier()), "PodDisruptionBudget")["spec"]
    assert spec["maxUnavailable"] == 1
    assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert "minAvailable" not in spec


@pytest.mark.parametrize(
    "edit",
    [
        {"replicas": 7},
        {"suspend": True},
        {"scaling": {"mode": "Auto", "maxReplicas": 9}},
        {"traffic": {"priceMultiplier": "6"}},
        {"rollout": {"maxUnavailable": 2}},
    ],
)
def test_scaling_and_traffic_roll_no_pod(edit: dict[str, Any]) -> None:
    before = manifest(bundle_of(tier()), "Deployment")["spec"]["template"]
    assert manifest(bundle_of(tier(**edit)), "Deployment")["spec"]["template"] == before


def test_an_edit_of_the_batch_size_rolls_the_pods() -> None:
    before = manifest(bundle_of(tier()), "Deployment")["spec"]["template"]
    after = manifest(bundle_of(tier(engine={"batching": {"maxSequences": 8}})), "Deployment")["spec"][
        "template"
    ]
    assert after != before
