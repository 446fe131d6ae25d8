"""A tier's volumes outlive it only when it says so, keep their names while their data can be kept, and are its own."""

from typing import Any

import pytest

from tests.support.tier_bundles import UID, bundle_of, engine_container, env_of, manifest, pod_spec, tier
from tierwright.api.tier import InferenceTier
from tierwright.desired.bundle import Child

WEIGHTS = {"size": "200Gi", "storageClassName": "fsx", "accessMode": "ReadWriteMany"}
COMPILE = {"size": "20Gi", "accessMode": "ReadWriteMany", "sharing": "Shared"}


def claims(wanted: InferenceTier) -> list[Child]:
    kind = "PersistentVolumeClaim"
    return [child for child in bundle_of(wanted).children if child.manifest["kind"] == kind]


def claim(**weights: Any) -> dict[str, Any]:
    (child,) = claims(tier(cache={"weights": {**WEIGHTS, **weights}}))
    return child.manifest


def test_weights_outlive_the_tier_unless_it_says_otherwise() -> None:
    (child,) = claims(tier(cache={"weights": WEIGHTS}))
    assert "ownerReferences" not in child.manifest["metadata"]


def test_weights_go_with_the_tier_when_it_says_so() -> None:
    (child,) = claims(tier(cache={"weights": {**WEIGHTS, "reclaimPolicy": "Delete"}}))
    assert child.manifest["metadata"]["ownerReferences"][0]["uid"] == UID


def test_compiled_artefacts_go_with_the_tier_unless_it_says_otherwise() -> None:
    (gone,) = claims(tier(cache={"compile": COMPILE}))
    (kept,) = claims(tier(cache={"compile": {**COMPILE, "reclaimPolicy": "Retain"}}))
    assert gone.manifest["metadata"]["ownerReferences"][0]["uid"] == UID
    assert "ownerReferences" not in kept.manifest["metadata"]


def test_a_claim_that_grows_keeps_its_name() -> None:
    assert claim()["metadata"]["name"] == claim(size="400Gi")["metadata"]["name"]
    assert claim(size="400Gi")["spec"]["resources"]["requests"]["storage"] == "400Gi"


@pytest.mark.parametrize(
    "edit", [{"storageClassName": "gp3"}, {"storageClassName": None}, {"accessMode": "ReadWriteOnce"}]
)
def test_what_a_claim_cannot_change_is_part_of_its_name(edit: dict[str, Any]) -> None:
    assert claim()["metadata"]["name"] != claim(**edit)["metadata"]["name"]


def test_pod_and_claim_agree_on_the_name() -> None:
    wanted = tier(name="x" * 253, cache={"weights": WEIGHTS, "compile": COMPILE})
    named = {child.manifest["metadata"]["name"] for child in claims(wanted)}
    mounted = {
        item["persistentVolumeClaim"]["claimName"]
        for item in pod_spec(wanted)["volumes"]
        if "persistentVolumeClaim" in item
    }
    assert named == mounted
    assert len(named) == 2


def test_a_tier_of_the_same_name_finds_its_weights_again() -> None:
    reborn = tier(cache={"weights": WEIGHTS})
    reborn = reborn.model_copy(update={"metadata": reborn.metadata.model_copy(update={"uid": "another"})})
    (before,), (after,) = claims(tier(cache={"weights": WEIGHTS})), claims(reborn)
    assert before.manifest == after.manifest


def test_two_speeds_of_a_model_never_share_a_volume() -> None:
    fast = claims(tier(name="llama-fast", cache={"weights": WEIGHTS, "compile": COMPILE}))
    standard = claims(tier(name="llama-standard", cache={"weights": WEIGHTS, "compile": COMPILE}))
    names = [child.manifest["metadata"]["name"] for child in (*fast, *standard)]
    assert len(set(names)) == 4


def test_a_volume_per_replica_lives_and_dies_with_its_pod() -> None:
    wanted = tier(cache={"compile": {"size": "20Gi", "storageClassName": "gp3"}})
    (volume,) = [item for item in pod_spec(wanted)["volumes"] if item["name"] == "compile"]
    template = volume["ephemeral"]["volumeClaimTemplate"]
    assert template["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "20Gi"}},
        "storageClassName": "gp3",
    }
    assert "labels" not in template.get("metadata", {}), "the operator would take the pod's claim for a child"
    assert not claims(wanted)


def test_the_clusters_default_class_is_left_to_the_cluster() -> None:
    assert "storageClassName" not in claim(storageClassName=None)["spec"]


@pytest.mark.parametrize("accelerator", ["nvidia", "neuron", "cpu"])
def test_compiled_artefacts_are_written_where_the_next_pod_finds_them(accelerator: str) -> None:
    container = engine_container(tier(accelerator, cache={"compile": COMPILE}))
    mounts = {item["mountPath"]: item["name"] for item in container["volumeMounts"]}
    assert mounts["/cache"] == "compile"
    env = env_of(container)
    assert env["HOME"] == "/cache"
    cached = {"nvidia": "VLLM_CACHE_ROOT", "cpu": "VLLM_CACHE_ROOT", "neuron": "NEURON_COMPILE_CACHE_URL"}
    assert env[cached[accelerator]].startswith("/cache/")


@pytest.mark.parametrize(
    ("engine", "hardware", "size"),
    [
        ({}, {}, "2Gi"),
        ({"tensorParallel": 4}, {"count": 4}, "5Gi"),
        ({"tensorParallel": 2, "pipelineParallel": 2, "dataParallel": 2}, {"count": 8}, "9Gi"),
        ({}, {"resources": {"sharedMemory": "32Gi"}}, "32Gi"),
    ],
)
def test_shared_memory_grows_with_the_ranks_that_talk_through_it(
    engine: dict[str, Any], hardware: dict[str, Any], size: str
) -> None:
    wanted = tier(engine=engine, hardware=hardware)
    (volume,) = [item for item in pod_spec(wanted)["volumes"] if item["name"] == "shm"]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": size}
    assert {"name": "shm", "mountPath": "/dev/shm"} in engine_container(wanted)["volumeMounts"]  # noqa: S108 - in a container


def test_every_volume_of_a_container_exists_in_the_pod() -> None:
    wanted = tier(cache={"weights": WEIGHTS, "compile": COMPILE})
    pod = pod_spec(wanted)
    names = {item["name"] for item in pod["volumes"]}
    for container in (*pod["initContainers"], *pod["containers"]):
        assert {mount["name"] for mount in container["volumeMounts"]} <= names


def test_the_claim_is_applied_before_the_pods_that_wait_for_it() -> None:
    kinds = [child.manifest["kind"] for child in bundle_of(tier(cache={"weights": WEIGHTS})).children]
    assert kinds.index("PersistentVolumeClaim") < kinds.index("Deployment") == len(kinds) - 1


def test_an_edit_of_the_size_of_a_shared_volume_rolls_no_pod() -> None:
    def template(size: str) -> Any:
        bundle = bundle_of(tier(cache={"weights": {**WEIGHTS, "size": size}}))
        return manifest(bundle, "Deployment")["spec"]["template"]

    assert template("200Gi") == template("400Gi")
