"""A bundle is complete, ordered, owned, valid for Kubernetes, and refused as a whole where it cannot be."""

from typing import Any

import pytest
from kubernetes_validate.utils import validate

from tests.support.tier_bundles import UID, bundle_of, manifest, refusal_of, tier
from tierwright.api.conditions import Reason
from tierwright.control.kinds import CHILDREN
from tierwright.desired.bundle import refusals
from tierwright.kube.resources import kind_of

KUBERNETES = "1.37"
DRAFT = {
    "method": "DraftModel",
    "tokens": 5,
    "disableAboveBatchSize": 8,
    "draftModel": {"source": "hf://a/draft"},
}
CACHE = {
    "weights": {"size": "200Gi", "storageClassName": "fsx", "accessMode": "ReadWriteMany"},
    "compile": {"size": "20Gi", "storageClassName": "gp3"},
}
SHARED = {"compile": {"size": "20Gi", "sharing": "Shared", "reclaimPolicy": "Retain"}}
FULL_HARDWARE = {
    "count": 4,
    "nodePool": {
        "matchLabels": {"karpenter.sh/nodepool": "h100"},
        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
    },
    "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}],
    "resources": {"cpu": "24", "memory": "200Gi", "sharedMemory": "32Gi", "ephemeralStorage": "50Gi"},
    "topologySpread": "Zone",
}
FULL_POD = {
    "schedulerName": "my-scheduler",
    "priorityClassName": "serving",
    "imagePullSecrets": [{"name": "registry"}],
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"}},
}
SECRET_ENV = [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
SPECS: dict[str, tuple[str, dict[str, Any]]] = {
    "nvidia, smallest": ("nvidia", {}),
    "cpu, smallest": ("cpu", {}),
    "neuron, smallest": ("neuron", {}),
    "nvidia, everything": (
        "nvidia",
        {
            "engine": {"tensorParallel": 4, "speculation": DRAFT, "env": SECRET_ENV},
            "hardware": FULL_HARDWARE,
            "pod": FULL_POD,
            "cache": CACHE,
            "podTemplate": {"spec": {"hostIPC": False, "containers": [{"name": "engine", "tty": False}]}},
        },
    ),
    "cpu, shared compile cache": ("cpu", {"cache": SHARED, "suspend": True}),
    "claim as source": ("nvidia", {"model": {"name": "m", "source": "pvc://models/llama"}}),
    "neuron, cores": (
        "neuron",
        {
            "engine": {"tensorParallel": 8},
            "hardware": {"count": 8, "resourceName": "aws.amazon.com/neuroncore"},
        },
    ),
}


@pytest.mark.parametrize(("accelerator", "spec"), SPECS.values(), ids=SPECS)
def test_kubernetes_accepts_every_child(accelerator: str, spec: dict[str, Any]) -> None:
    for child in bundle_of(tier(accelerator, **spec)).children:
        validate(child.manifest, KUBERNETES, strict=True)


@pytest.mark.parametrize(("accelerator", "spec"), SPECS.values(), ids=SPECS)
def test_every_child_is_of_a_kind_that_the_operator_owns_and_named_once(
    accelerator: str, spec: dict[str, Any]
) -> None:
    children = [child.manifest for child in bundle_of(tier(accelerator, **spec)).children]
    assert {kind_of(item) for item in children} <= set(CHILDREN)
    assert len({(item["kind"], item["metadata"]["name"]) for item in children}) == len(children)


@pytest.mark.parametrize(("accelerator", "spec"), SPECS.values(), ids=SPECS)
def test_no_field_is_null_or_an_empty_list(accelerator: str, spec: dict[str, Any]) -> None:
    def walk(value: Any, path: str) -> None:
        assert value is not None, path
        assert value != [], path
        if isinstance(value, dict):
            for name, item in value.items():
                walk(item, f"{path}.{name}")
        elif isinstance(value, list):
            for index, item in enumerate(value):
                walk(item, f"{path}[{index}]")

    for child in bundle_of(tier(accelerator, **spec)).children:
        walk(child.manifest, child.manifest["kind"])


def test_what_pods_need_is_applied_before_them() -> None:
    kinds = [child.manifest["kind"] for child in bundle_of(tier(cache={**CACHE, **SHARED})).children]
    assert kinds == [
        "ServiceAccount",
        "PersistentVolumeClaim",
        "PersistentVolumeClaim",
        "NetworkPolicy",
        "Service",
        "Service",
        "PodDisruptionBudget",
        "Deployment",
    ]


def is_claim_of_weights(manifest: dict[str, Any]) -> bool:
    return manifest["kind"] == "PersistentVolumeClaim" and "-weights-" in manifest["metadata"]["name"]


def test_every_child_that_goes_with_the_tier_holds_up_its_foreground_deletion() -> None:
    for child in bundle_of(tier(cache=CACHE)).children:
        owners = child.manifest["metadata"].get("ownerReferences", [])
        if is_claim_of_weights(child.manifest):  # they are retained
            assert owners == []
        else:
            assert owners == [
                {
                    "apiVersion": "tierwright.dev/v1alpha1",
                    "kind": "InferenceTier",
                    "name": "llama-fast",
                    "uid": UID,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ]


def test_a_tier_that_is_not_in_a_cluster_owns_nothing() -> None:
    wanted = tier()
    offline = wanted.model_copy(update={"metadata": wanted.metadata.model_copy(update={"uid": None})})
    for child in bundle_of(offline).children:
        assert "ownerReferences" not in child.manifest["metadata"]


def test_children_never_carry_a_finalizer() -> None:
    for child in bundle_of(tier(cache=CACHE)).children:
        assert "finalizers" not in child.manifest["metadata"]


def test_every_child_lies_in_the_tiers_namespace() -> None:
    namespaces = {child.manifest["metadata"]["namespace"] for child in bundle_of(tier(cache=CACHE)).children}
    assert namespaces == {"serving"}


def test_the_bundle_says_where_it_serves_and_what_runs_it() -> None:
    bundle = bundle_of(tier())
    assert bundle.workload == ("Deployment", "llama-fast")
    assert bundle.endpoint == "llama-fast.serving.svc:8000"
    assert bundle.engine_image == "vllm/vllm-openai:v0.32.0"
    assert bundle.engine_version == "0.32.0"


def test_the_endpoint_names_the_service_that_was_made() -> None:
    bundle = bundle_of(tier(name="7b." + "x" * 200))
    service = next(child.manifest for child in bundle.children if child.manifest["kind"] == "Service")
    (port,) = service["spec"]["ports"]
    assert bundle.endpoint == f"{service['metadata']['name']}.serving.svc:{port['port']}"


def test_services_reach_the_port_of_the_engine() -> None:
    bundle = bundle_of(tier())
    template = manifest(bundle, "Deployment")["spec"]["template"]["spec"]
    for suffix in ("fast", "headless"):
        (port,) = manifest(bundle, "Service", suffix)["spec"]["ports"]
        assert port["targetPort"] == template["containers"][0]["ports"][0]["name"]
    assert manifest(bundle, "Service", "headless")["spec"]["clusterIP"] == "None"


@pytest.mark.parametrize(
    ("accelerator", "spec", "reason"),
    [
        ("nvidia", {"hardware": {"hosts": 2}}, Reason.UNSUPPORTED),
        ("nvidia", {"engine": {"type": "jax", "dtype": "float16"}}, Reason.UNSUPPORTED),
        ("neuron", {"engine": {"type": "vllm"}}, Reason.UNSUPPORTED),
        ("nvidia", {"podTemplate": {"replicas": 2}}, Reason.INVALID_SPEC),
    ],
)
def test_what_cannot_be_built_has_no_children_at_all(
    accelerator: str, spec: dict[str, Any], reason: Reason
) -> None:
    refusal = refusal_of(tier(accelerator, **spec))
    assert refusal.reason is reason
    assert refusal.path.startswith("spec.")


def test_a_tier_that_can_be_built_has_no_refusals() -> None:
    assert refusals(tier()) == ()


def test_a_patch_that_is_refused_is_told_when_nothing_else_is() -> None:
    (refusal,) = refusals(tier(podTemplate={"replicas": 2}))
    assert refusal.path == "spec.podTemplate.replicas"


def test_the_same_tier_gives_equal_bundles() -> None:
    assert bundle_of(tier(cache=CACHE)) == bundle_of(tier(cache=CACHE))
