"""The user's patch has the last word on what is not typed, and cannot touch what the operator lives by."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tier_bundles import (
    bundle_of,
    engine_container,
    env_of,
    pod_spec,
    pod_template,
    refusal_of,
    tier,
)
from tierwright.api.conditions import Reason
from tierwright.desired.bundle import BundleContext, Refusal, desired_bundle
from tierwright.desired.strategic_merge import strategic_merge
from tierwright.hardware.refusal import RefusedError


def patched(patch: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return pod_spec(tier(podTemplate=patch, **spec))


def engine(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "engine", **fields}]}}


def test_a_variable_is_added_to_the_engine_and_the_others_stay() -> None:
    before = engine_container(tier())
    after = patched(engine(env=[{"name": "NCCL_DEBUG", "value": "INFO"}]))["containers"]
    assert len(after) == 1
    assert env_of(after[0]) == {**env_of(before), "NCCL_DEBUG": "INFO"}


def test_a_variable_is_replaced_as_a_whole() -> None:
    source = {"fieldRef": {"fieldPath": "status.podIP"}}
    env = patched(engine(env=[{"name": "USER", "valueFrom": source}]))["containers"][0]["env"]
    assert [item for item in env if item["name"] == "USER"] == [{"name": "USER", "valueFrom": source}]


def test_a_volume_is_replaced_as_a_whole() -> None:
    volumes = patched({"spec": {"volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory"}}]}})["volumes"]
    claim = {"name": "compile", "persistentVolumeClaim": {"claimName": "mine"}}
    replaced = patched({"spec": {"volumes": [claim]}})["volumes"]
    assert {"name": "tmp", "emptyDir": {"medium": "Memory"}} in volumes
    assert claim in replaced
    assert len(replaced) == len(volumes) == len(pod_spec(tier())["volumes"])


def test_a_volume_can_be_mounted_for_a_file_source() -> None:
    patch = engine(volumeMounts=[{"name": "nfs", "mountPath": "/mnt/models"}])
    patch["spec"]["volumes"] = [{"name": "nfs", "nfs": {"server": "10.0.0.1", "path": "/models"}}]
    pod = patched(patch, model={"name": "m", "source": "file:///mnt/models/llama"})
    assert {"name": "nfs", "mountPath": "/mnt/models"} in pod["containers"][0]["volumeMounts"]
    assert patch["spec"]["volumes"][0] in pod["volumes"]


def test_a_sidecar_and_an_init_container_are_added() -> None:
    pod = patched(
        {"spec": {"containers": [{"name": "log", "image": "log:1"}], "initContainers": [{"name": "warm"}]}}
    )
    assert [item["name"] for item in pod["containers"]] == ["engine", "log"]
    assert [item["name"] for item in pod["initContainers"]] == ["fetch-weights", "warm"]


def test_tolerations_are_added_so_that_the_accelerators_own_stays() -> None:
    more = {"key": "spot", "operator": "Exists"}
    tolerations = patched({"spec": {"tolerations": [more]}})["tolerations"]
    assert tolerations == [{"key": "nvidia.com/gpu", "operator": "Exists"}, more]


def test_null_takes_a_field_away() -> None:
    pod = patched(
        {
            "spec": {
                "topologySpreadConstraints": None,
                "containers": [{"name": "engine", "livenessProbe": None}],
            }
        }
    )
    assert "topologySpreadConstraints" not in pod
    assert "livenessProbe" not in pod["containers"][0]


def test_null_for_what_is_absent_changes_nothing() -> None:
    assert patched({"spec": {"hostNetwork": None}}) == pod_spec(tier())


def test_maps_merge_and_unknown_lists_are_replaced() -> None:
    pod = patched(engine(securityContext={"capabilities": {"drop": ["NET_RAW"], "add": ["SYS_NICE"]}}))
    security = pod["containers"][0]["securityContext"]
    assert security["capabilities"] == {"drop": ["NET_RAW"], "add": ["SYS_NICE"]}
    assert security["readOnlyRootFilesystem"] is True


def test_labels_and_annotations_are_added_to_the_pods() -> None:
    patch = {"metadata": {"labels": {"team": "search"}, "annotations": {"sidecar.istio.io/inject": "false"}}}
    metadata = pod_template(bundle_of(tier(podTemplate=patch)))["metadata"]
    assert metadata["labels"]["team"] == "search"
    assert metadata["labels"]["tierwright.dev/tier"] == "llama-fast"
    assert metadata["annotations"]["sidecar.istio.io/inject"] == "false"


def test_host_memory_can_be_patched_beside_the_devices() -> None:
    resources = patched(engine(resources={"limits": {"memory": "10Gi"}}))["containers"][0]["resources"]
    assert resources["limits"] == {"nvidia.com/gpu": "1", "memory": "10Gi"}


def test_an_empty_patch_changes_nothing() -> None:
    assert patched({}) == pod_spec(tier())


def test_the_same_patch_gives_the_same_bytes() -> None:
    patch = engine(env=[{"name": "B", "value": "1"}, {"name": "A", "value": "2"}])
    rendered = [json.dumps(patched(copy.deepcopy(patch))) for _ in range(3)]
    assert len(set(rendered)) == 1


def test_neither_template_nor_patch_is_changed_by_the_merge() -> None:
    base = {"spec": {"containers": [{"name": "engine", "env": [{"name": "A", "value": "1"}]}]}}
    patch = engine(env=[{"name": "A", "value": "2"}], resources={"limits": {"memory": "1Gi"}})
    kept = copy.deepcopy((base, patch))
    strategic_merge(base, patch, "spec.podTemplate")
    assert (base, patch) == kept


def test_a_map_replaces_what_is_no_map() -> None:
    assert strategic_merge({"metadata": "odd"}, {"metadata": {"labels": {}}}, "p") == {
        "metadata": {"labels": {}}
    }


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ({"spec": {"$patch": "replace"}}, "spec.podTemplate.spec.$patch"),
        (
            {"spec": {"volumes": [{"name": "tmp", "$patch": "delete"}]}},
            "spec.podTemplate.spec.volumes[0].$patch",
        ),
        (
            {"spec": {"$setElementOrder/containers": [{"name": "engine"}]}},
            "spec.podTemplate.spec.$setElementOrder/containers",
        ),
        (
            {"spec": {"readinessGates": [{"$patch": "replace"}, "odd"]}},
            "spec.podTemplate.spec.readinessGates[0].$patch",
        ),
        ({"spec": {"containers": [{"image": "x"}]}}, "spec.podTemplate.spec.containers[0].name"),
        (engine(ports=[{"name": "x"}]), "spec.podTemplate.spec.containers[0].ports[0].containerPort"),
        ({"spec": {"containers": {"engine": {}}}}, "spec.podTemplate.spec.containers"),
        ({"spec": {"containers": ["engine"]}}, "spec.podTemplate.spec.containers[0]"),
        ({"spec": ["odd"]}, "spec.podTemplate.spec"),
        ({"replicas": 3}, "spec.podTemplate.replicas"),
        ({"template": {}}, "spec.podTemplate.template"),
        ({"spec": {"replicas": 3}}, "spec.podTemplate.spec.replicas"),
        ({"spec": {"template": {}}}, "spec.podTemplate.spec.template"),
        ({"metadata": {"name": "x"}}, "spec.podTemplate.metadata.name"),
        (
            {"metadata": {"labels": {"tierwright.dev/tier": "other"}}},
            "spec.podTemplate.metadata.labels[tierwright.dev/tier]",
        ),
        (
            {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}},
            "spec.podTemplate.metadata.labels[app.kubernetes.io/managed-by]",
        ),
        ({"metadata": {"labels": None}}, "spec.podTemplate.metadata.labels[app.kubernetes.io/name]"),
        (
            engine(resources={"limits": {"nvidia.com/gpu": "8"}}),
            "spec.podTemplate.spec.containers[engine].resources.limits[nvidia.com/gpu]",
        ),
        (
            engine(resources=None),
            "spec.podTemplate.spec.containers[engine].resources.requests[nvidia.com/gpu]",
        ),
        (
            {"spec": {"initContainers": [{"name": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}},
            "spec.podTemplate.spec.initContainers[x].resources.limits[nvidia.com/gpu]",
        ),
        (
            {
                "spec": {
                    "containers": [{"name": "x", "resources": {"limits": {"aws.amazon.com/neuron": "1"}}}]
                }
            },
            "spec.podTemplate.spec.containers[x].resources.limits[aws.amazon.com/neuron]",
        ),
        ({"metadata": {"labels": "odd"}}, "spec.podTemplate.metadata.labels"),
        (engine(resources="odd"), "spec.podTemplate.spec.containers[0].resources"),
        (engine(image="other:1"), "spec.podTemplate.spec.containers[engine].image"),
        (engine(args=["--port", "1"]), "spec.podTemplate.spec.containers[engine].args"),
        ({"spec": {"containers": None}}, "spec.podTemplate.spec.containers"),
        (
            engine(resources={"limits": {"memory": "1e99999999"}}),
            "spec.podTemplate.spec.containers[0].resources.limits[memory]",
        ),
        (
            engine(resources={"requests": {"cpu": "1" * 65}}),
            "spec.podTemplate.spec.containers[0].resources.requests[cpu]",
        ),
        ({"spec": {"overhead": {"cpu": "1E-99999"}}}, "spec.podTemplate.spec.overhead[cpu]"),
        (
            {"spec": {"volumes": [{"name": "a", "emptyDir": {"sizeLimit": "1e+99999"}}]}},
            "spec.podTemplate.spec.volumes[0].emptyDir.sizeLimit",
        ),
    ],
)
def test_what_a_patch_may_not_touch_is_refused_with_its_field(patch: dict[str, Any], path: str) -> None:
    refusal = refusal_of(tier(podTemplate=patch))
    assert refusal.path == path
    assert refusal.reason is Reason.INVALID_SPEC
    assert len(refusal.message) > 20


def test_only_quantities_are_taken_as_such() -> None:
    patch = engine(
        env=[{"name": "limits", "value": "1e99999999"}],
        resources={"limits": {"memory": "1e10", "ephemeral-storage": 2.5e9}},
    )
    assert patched(patch)["containers"][0]["resources"]["limits"]["memory"] == "1e10"


def test_other_resources_than_accelerators_may_be_added() -> None:
    resources = patched(engine(resources={"limits": {"vpc.amazonaws.com/efa": "4"}}))["containers"][0][
        "resources"
    ]
    assert resources["limits"] == {"nvidia.com/gpu": "1", "vpc.amazonaws.com/efa": "4"}


WORDS = st.sampled_from(
    [
        "spec",
        "metadata",
        "containers",
        "initContainers",
        "volumes",
        "env",
        "labels",
        "name",
        "engine",
        "resources",
        "limits",
        "requests",
        "nvidia.com/gpu",
        "tolerations",
        "$patch",
        "image",
        "tmp",
        "ports",
        "replicas",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.fixed_dictionaries({}, optional={"spec": JSON, "metadata": JSON}) | st.dictionaries(WORDS, JSON))
def test_a_patch_of_any_shape_is_merged_or_refused_and_never_a_crash(patch: dict[str, Any]) -> None:
    result = desired_bundle(tier(podTemplate=patch), BundleContext())
    if isinstance(result, Refusal):
        assert result.path.startswith("spec.podTemplate")
    else:
        assert pod_template(result)["metadata"]["labels"]["tierwright.dev/tier"] == "llama-fast"


def test_a_patch_without_the_field_that_names_an_item_is_refused() -> None:
    with pytest.raises(RefusedError):
        strategic_merge({}, {"spec": {"volumes": [{"emptyDir": {}}]}}, "spec.podTemplate")
