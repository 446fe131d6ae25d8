"""Pods hold the restricted Pod Security Standard, run as the image's user, and take nothing they were not given."""

from typing import Any

import pytest

from tests.support.tier_bundles import bundle_of, engine_container, env_of, manifest, pod_spec, tier

ACCELERATORS = ["nvidia", "neuron", "cpu"]


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_every_container_is_restricted(accelerator: str) -> None:
    pod = pod_spec(tier(accelerator))
    security = pod["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] > 0
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }


def test_a_large_volume_is_not_chowned_at_each_start() -> None:
    security = pod_spec(tier())["securityContext"]
    assert security["fsGroupChangePolicy"] == "OnRootMismatch"
    assert (security["runAsUser"], security["runAsGroup"], security["fsGroup"]) == (2000, 0, 2000)


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_everything_the_engine_writes_to_is_a_volume(accelerator: str) -> None:
    container = engine_container(tier(accelerator))
    writable = {item["mountPath"] for item in container["volumeMounts"] if not item.get("readOnly")}
    assert writable == {"/cache", "/tmp", "/dev/shm"}  # noqa: S108 - paths in a container
    paths = [
        value for value in env_of(container).values() if isinstance(value, str) and value.startswith("/")
    ]
    assert all(path.startswith("/cache") for path in paths)


def test_libraries_find_a_user_and_a_home_that_the_image_may_not_have() -> None:
    env = env_of(engine_container(tier()))
    assert env["USER"]
    assert env["HOME"] == "/cache"


def test_no_service_sets_variables_of_the_engine() -> None:
    assert pod_spec(tier())["enableServiceLinks"] is False


def test_the_engine_holds_no_credentials_of_the_cluster() -> None:
    assert pod_spec(tier())["automountServiceAccountToken"] is False
    assert manifest(bundle_of(tier()), "ServiceAccount")["automountServiceAccountToken"] is False


def test_a_service_account_of_the_user_is_used_and_not_touched() -> None:
    wanted = tier(pod={"serviceAccount": {"name": "mine"}})
    assert pod_spec(wanted)["serviceAccountName"] == "mine"
    assert "ServiceAccount" not in {child.manifest["kind"] for child in bundle_of(wanted).children}


def test_a_cloud_role_stands_on_the_account_that_the_pods_use() -> None:
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/models"}
    wanted = tier(pod={"serviceAccount": {"annotations": role}})
    account = manifest(bundle_of(wanted), "ServiceAccount")
    assert account["metadata"]["annotations"].items() >= role.items()
    assert pod_spec(wanted)["serviceAccountName"] == account["metadata"]["name"]


def test_only_the_http_port_is_open_and_only_inside_the_cluster() -> None:
    spec = manifest(bundle_of(tier()), "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    assert spec["ingress"] == [
        {"from": [{"namespaceSelector": {}}], "ports": [{"protocol": "TCP", "port": "http"}]}
    ]


@pytest.mark.parametrize(
    ("pod", "field", "value"),
    [
        ({"schedulerName": "neuron-scheduler"}, "schedulerName", "neuron-scheduler"),
        ({"priorityClassName": "serving"}, "priorityClassName", "serving"),
        (
            {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]},
            "imagePullSecrets",
            [{"name": "a"}, {"name": "b"}],
        ),
    ],
)
def test_settings_of_the_pod_reach_it_and_are_absent_else(
    pod: dict[str, Any], field: str, value: object
) -> None:
    assert pod_spec(tier(pod=pod))[field] == value
    assert field not in pod_spec(tier())


@pytest.mark.parametrize(
    ("choice", "key"), [("Zone", "topology.kubernetes.io/zone"), ("Host", "kubernetes.io/hostname")]
)
def test_replicas_spread_where_they_can_and_run_where_they_cannot(choice: str, key: str) -> None:
    (constraint,) = pod_spec(tier(hardware={"topologySpread": choice}))["topologySpreadConstraints"]
    assert constraint["topologyKey"] == key
    assert constraint["whenUnsatisfiable"] == "ScheduleAnyway"
    assert constraint["matchLabelKeys"] == ["pod-template-hash"]


def test_spreading_can_be_left_to_the_cluster() -> None:
    assert "topologySpreadConstraints" not in pod_spec(tier(hardware={"topologySpread": "None"}))


def test_cpu_is_requested_and_never_limited() -> None:
    hardware = {"resources": {"cpu": "24", "memory": "200Gi", "ephemeralStorage": "50Gi"}}
    assert engine_container(tier(hardware=hardware))["resources"] == {
        "requests": {"cpu": "24", "memory": "200Gi", "ephemeral-storage": "50Gi", "nvidia.com/gpu": "1"},
        "limits": {"memory": "200Gi", "ephemeral-storage": "50Gi", "nvidia.com/gpu": "1"},
    }


def test_a_cpu_tier_may_ask_for_nothing() -> None:
    pod = pod_spec(tier("cpu"))
    assert "resources" not in pod["containers"][0]
    assert "nodeSelector" not in pod
    assert "affinity" not in pod
    assert "tolerations" not in pod


def test_a_cpu_tier_without_a_gpu_keeps_its_selector_and_tolerations() -> None:
    taint = {"key": "dedicated", "operator": "Exists"}
    hardware = {"nodePool": {"matchLabels": {"pool": "cpu"}}, "tolerations": [taint]}
    pod = pod_spec(tier("cpu", hardware=hardware))
    assert pod["nodeSelector"] == {"pool": "cpu"}
    assert pod["tolerations"] == [taint]
