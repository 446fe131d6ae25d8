"""The Job compiles in a pod as the tier's own are, is no replica of the tier, ends, and is another one for other programs."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.tier_bundles import bundle_of, env_of, manifest, tier
from tests.unit.desired.test_compile_step import SHARED, jax_tier, step
from tierwright.api.tier import InferenceTier
from tierwright.desired.compile_job import compile_key
from tierwright.desired.labels import TIER_LABEL, selector_labels
from tierwright.engines.engine import EnginePlan

FULL: dict[str, Any] = {
    "engine": {"tensorParallel": 4, "env": [{"name": "A", "value": "b"}], "extraArgs": ["--api-key", "k"]},
    "hardware": {
        "count": 4,
        "nodePool": {"matchLabels": {"pool": "fast"}},
        "resources": {"cpu": "8", "memory": "16Gi"},
    },
    "pod": {"priorityClassName": "high", "imagePullSecrets": [{"name": "registry"}]},
}


def job(wanted: InferenceTier) -> dict[str, Any]:
    return manifest(bundle_of(wanted), "Job")


def job_pod(wanted: InferenceTier) -> dict[str, Any]:
    spec: dict[str, Any] = job(wanted)["spec"]["template"]["spec"]
    return spec


def served_pod(wanted: InferenceTier) -> dict[str, Any]:
    spec: dict[str, Any] = manifest(bundle_of(wanted), "Deployment")["spec"]["template"]["spec"]
    return spec


def test_its_pod_is_no_replica_of_the_tier() -> None:
    """A Service that finds it would send requests to a pod that serves nothing."""
    labels = job(jax_tier())["spec"]["template"]["metadata"]["labels"]
    assert not selector_labels(jax_tier()).items() <= labels.items()
    assert TIER_LABEL not in labels
    assert TIER_LABEL in job(jax_tier())["metadata"]["labels"], "the operator finds the Job itself by it"


def test_its_pod_is_never_ready_so_that_no_service_of_the_users_finds_it_either() -> None:
    own = jax_tier(
        podTemplate={
            "metadata": {"labels": {"app": "own"}},
            "spec": {"readinessGates": [{"conditionType": "a/b"}]},
        }
    )
    assert job(own)["spec"]["template"]["metadata"]["labels"]["app"] == "own", "policies may ask for it"
    assert job_pod(own)["readinessGates"] == [{"conditionType": "tierwright.dev/serves"}]
    assert served_pod(own)["readinessGates"] == [{"conditionType": "a/b"}]


@pytest.mark.parametrize("accelerator", ["cpu", "nvidia", "neuron"])
def test_it_compiles_where_and_with_what_the_pods_run(accelerator: str) -> None:
    """aws-neuron-sdk#1368, dynamo#10695: a cache that was filled in another environment is never used."""
    spec: dict[str, Any] = {} if accelerator == "cpu" else FULL
    if accelerator == "neuron":
        spec = {**FULL, "hardware": {**FULL["hardware"], "count": 2}}
    wanted = jax_tier(accelerator, **spec)
    compiling, serving = job_pod(wanted), served_pod(wanted)
    (one,), (other,) = compiling["containers"], serving["containers"]
    for field in ("image", "env", "volumeMounts", "securityContext"):
        assert one[field] == other[field]
    assert one.get("resources") == other.get("resources")
    for field in (
        "volumes",
        "nodeSelector",
        "affinity",
        "tolerations",
        "priorityClassName",
        "imagePullSecrets",
        "serviceAccountName",
        "securityContext",
        "initContainers",
    ):
        assert compiling.get(field) == serving.get(field), field


def test_it_serves_nothing_and_ends() -> None:
    compiling = job_pod(jax_tier("nvidia", **FULL))
    (container,) = compiling["containers"]
    assert container["args"][0] == "compile"
    assert "--api-key" not in container["args"]
    assert not {"ports", "startupProbe", "livenessProbe", "readinessProbe", "lifecycle"} & set(container)
    assert compiling["restartPolicy"] == "Never"
    assert "topologySpreadConstraints" not in compiling


def test_a_container_beside_the_engine_would_never_end_and_stays_out() -> None:
    patch = {
        "metadata": {"annotations": {"mine": "yes"}},
        "spec": {
            "containers": [
                {"name": "log-shipper", "image": "shipper:1"},
                {"name": "engine", "volumeMounts": [{"name": "own", "mountPath": "/own"}]},
            ],
            "volumes": [{"name": "own", "emptyDir": {}}],
        },
    }
    wanted = jax_tier(podTemplate=patch)
    (container,) = job_pod(wanted)["containers"]
    assert {"name": "own", "mountPath": "/own"} in container["volumeMounts"]
    assert job(wanted)["spec"]["template"]["metadata"]["annotations"]["mine"] == "yes"
    assert len(served_pod(wanted)["containers"]) == 2


def test_a_compiler_that_fails_is_tried_again_a_few_times_and_hopeless_settings_are_not() -> None:
    """aws-neuron-sdk#1369: a random failure of the compiler ended in a crash loop without bound."""
    spec = job(jax_tier())["spec"]
    assert spec["backoffLimit"] == 2
    evicted, hopeless = spec["podFailurePolicy"]["rules"]
    assert evicted["action"] == "Ignore"
    codes = hopeless["onExitCodes"]["values"]
    assert hopeless["action"] == "FailJob"
    assert hopeless["onExitCodes"]["containerName"] == job_pod(jax_tier())["containers"][0]["name"]
    assert codes == sorted(set(codes))
    assert 71 not in codes, "too little memory may be a neighbour's doing"


@pytest.mark.parametrize(
    ("timeout", "source", "least"),
    [("75m", "file:///models/m", 75 * 60), ("75m", "hf://org/model@main", 2 * 75 * 60)],
)
def test_its_deadline_follows_from_what_a_start_may_take(timeout: str, source: str, least: int) -> None:
    """kubeai#172, aws-do-eks PR#40: 900 seconds, and even 75 minutes, were too short for huge weights; nobody could change them."""
    wanted = jax_tier(rollout={"startupTimeout": timeout}, model={"name": "m", "source": source})
    assert job(wanted)["spec"]["activeDeadlineSeconds"] > least


def test_it_goes_with_the_tier_and_by_itself() -> None:
    made = job(jax_tier())
    (owner,) = made["metadata"]["ownerReferences"]
    assert owner["controller"] is True
    assert made["spec"]["ttlSecondsAfterFinished"] <= 3600


def test_its_name_fits_at_the_longest_name_of_a_tier() -> None:
    name = job(jax_tier(name="t" * 253))["metadata"]["name"]
    assert len(name) <= 63


@pytest.mark.parametrize(
    "change",
    [
        {"engine": {"image": "worker:2"}},
        {"engine": {"maxModelLen": 4096}},
        {"engine": {"dtype": "bfloat16"}},
        {"engine": {"batching": {"maxSequences": 4}}},
        {"engine": {"quantization": "int8"}},
        {"engine": {"kvCache": {"dtype": "int8"}}},
        {"engine": {"promptCache": {"enabled": False}}},
        {"engine": {"jax": {"lengthBuckets": [512]}}},
        {"engine": {"jax": {"prefillBuckets": [64]}}},
        {"engine": {"speculation": {"method": "NGram", "tokens": 4}}},
        {"engine": {"env": [{"name": "XLA_FLAGS", "value": "--x"}]}},
        {"model": {"name": "m", "source": "hf://org/other@main"}},
        {"hardware": {"nodePool": {"matchLabels": {"pool": "other"}}}},
        {"hardware": {"nodePool": {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}}},
        {"hardware": {"resources": {"cpu": "2"}}},
        {"volume": {**SHARED, "storageClassName": "other"}},
    ],
    ids=str,
)
def test_what_changes_the_programs_is_another_job(change: dict[str, Any]) -> None:
    assert step(jax_tier(**change)).key != step(jax_tier()).key
    assert step(jax_tier(**change)).job_name != step(jax_tier()).job_name


@pytest.mark.parametrize(("accelerator", "devices"), [("nvidia", {"count": 4}), ("neuron", {"count": 2})])
def test_into_how_many_parts_a_model_is_cut_is_in_the_key(accelerator: str, devices: dict[str, Any]) -> None:
    """The program of one part is another for two parts, and each asks for its neighbours."""
    one = jax_tier(accelerator)
    cut = jax_tier(accelerator, engine={"tensorParallel": 4}, hardware=devices)
    assert job_pod(cut)["containers"][0]["args"].count("--tensor-parallel-size") == 1
    assert step(cut).key != step(one).key
    # By itself, and not only since more parts need more devices.
    template = manifest(bundle_of(cut), "Deployment")["spec"]["template"]
    plan = EnginePlan(image="worker:1", version=None, args=(), env={}, health_path="/", uid=1, gid=1)
    keys = {
        compile_key(template, replace(plan, compile_args=("compile", "--tensor-parallel-size", parts)))
        for parts in ("2", "4")
    }
    assert len(keys) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"replicas": 3},
        {"engine": {"extraArgs": ["--max-num-queued-reqs", "64"]}},
        {"engine": {"promptCache": {"ttl": "5m"}}},
        {"rollout": {"drainTimeout": "1m"}},
        {"volume": {**SHARED, "size": "30Gi"}},
    ],
    ids=str,
)
def test_what_leaves_the_programs_as_they_are_compiles_nothing_anew(change: dict[str, Any]) -> None:
    assert step(jax_tier(**change)).key == step(jax_tier()).key


def test_more_memory_needs_no_other_programs_but_another_job() -> None:
    """A Job's template cannot be edited: one of the same name with another template would be refused for ever."""
    bigger = jax_tier(hardware={"resources": {"memory": "64Gi"}})
    assert step(bigger).key == step(jax_tier()).key
    assert step(bigger).job_name != step(jax_tier()).job_name


def test_the_token_is_given_to_what_downloads_in_the_job_too() -> None:
    """kserve#6260: the container that downloads had no token."""
    reference = {"name": "hf", "key": "token"}
    model = {"name": "m", "source": "hf://org/gated@main", "tokenSecretRef": reference}
    (fetch,) = job_pod(jax_tier(model=model))["initContainers"]
    assert env_of(fetch)["HF_TOKEN"] == {"secretKeyRef": reference}


def test_an_engine_without_a_compile_run_has_no_job() -> None:
    kinds = {child.manifest["kind"] for child in bundle_of(tier(cache={"compile": SHARED})).children}
    assert "Job" not in kinds
