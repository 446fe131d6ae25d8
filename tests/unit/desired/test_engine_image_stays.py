"""The engine's image changes when the user's spec does, not when the operator is upgraded or scaled."""

from typing import Any

import pytest

from tests.support.tier_bundles import bundle_of, engine_container, manifest, pod_template, tier
from tierwright.api.tier import InferenceTier
from tierwright.desired.bundle import PinnedEngine, pinned_engine
from tierwright.desired.pod_spec_hash import pod_spec_hash

OLD_IMAGE = "vllm/vllm-openai:v0.31.0"
CACHE = {
    "weights": {"size": "200Gi", "accessMode": "ReadWriteMany"},
    "compile": {"size": "20Gi"},
}
POD = {"serviceAccount": {"annotations": {"role": "a"}}}


def pinned_by(wanted: InferenceTier) -> PinnedEngine:
    """An older release of the operator rendered this tier, with an older default."""
    return PinnedEngine(OLD_IMAGE, "0.31.0", pod_spec_hash(wanted.spec))


def test_an_upgrade_of_the_operator_rolls_no_pod() -> None:
    wanted = tier()
    bundle = bundle_of(wanted, pinned_by(wanted))
    assert (bundle.engine_image, bundle.engine_version) == (OLD_IMAGE, "0.31.0")
    assert pod_template(bundle)["spec"]["containers"][0]["image"] == OLD_IMAGE
    assert pod_template(bundle)["spec"]["initContainers"][0]["image"] == OLD_IMAGE


def test_the_engine_in_use_is_remembered_on_the_workload_and_not_on_its_pods() -> None:
    wanted = tier()
    live = manifest(bundle_of(wanted), "Deployment")
    remembered = pinned_engine(live)
    assert remembered == PinnedEngine("vllm/vllm-openai:v0.32.0", "0.32.0", pod_spec_hash(wanted.spec))
    assert "tierwright.dev/pod-spec-hash" not in live["spec"]["template"]["metadata"]["annotations"]


def test_an_edit_that_reaches_the_pods_takes_the_new_default() -> None:
    before = tier()
    after = tier(engine={"maxModelLen": 4096})
    assert bundle_of(after, pinned_by(before)).engine_image == "vllm/vllm-openai:v0.32.0"


@pytest.mark.parametrize(
    "edit",
    [
        {"replicas": 5},
        {"suspend": True},
        {"scaling": {"mode": "Auto", "maxReplicas": 3}},
        {"traffic": {"priceMultiplier": "2"}},
        {"rollout": {"strategy": "RollingUpdate", "maxSurge": 1, "maxUnavailable": 0}},
        {"cache": {**CACHE, "weights": {**CACHE["weights"], "size": "400Gi"}}},
        {"cache": {**CACHE, "weights": {**CACHE["weights"], "reclaimPolicy": "Delete"}}},
        {"pod": {"serviceAccount": {"annotations": {"role": "b"}}}},
        {"engine": {"tensorParallel": 1, "batching": {}}, "hardware": {"hosts": 1}},
    ],
)
def test_an_edit_that_renders_the_same_pods_keeps_the_image(edit: dict[str, Any]) -> None:
    before = tier(cache=CACHE, pod=POD)
    after = tier(**{"cache": CACHE, "pod": POD, **edit})
    assert pod_template(bundle_of(before)) == pod_template(bundle_of(after)), "the edit reaches the pods"
    assert bundle_of(after, pinned_by(before)).engine_image == OLD_IMAGE


@pytest.mark.parametrize(
    "edit",
    [
        {"model": {"name": "meta/llama-3.1-8b", "source": "hf://meta-llama/Llama-3.1-8B@main"}},
        {"speed": "standard"},
        {"engine": {"env": [{"name": "A", "value": "1"}]}},
        {"hardware": {"nodePool": {"matchLabels": {"pool": "b"}}}},
        {"pod": {"priorityClassName": "serving"}},
        {"pod": {"schedulerName": "other"}},
        {"pod": {"imagePullSecrets": [{"name": "a"}]}},
        {"pod": {"serviceAccount": {"name": "mine"}}},
        {"podTemplate": {"spec": {"hostNetwork": True}}},
        {"cache": {**CACHE, "compile": {"size": "40Gi"}}},
        {"cache": {**CACHE, "weights": {**CACHE["weights"], "storageClassName": "fsx"}}},
        {"cache": {}},
        {"rollout": {"drainTimeout": "1m"}},
        {"rollout": {"startupTimeout": "1h"}},
    ],
)
def test_every_edit_that_reaches_the_pods_changes_the_hash(edit: dict[str, Any]) -> None:
    before = tier(cache=CACHE)
    after = tier(**{"cache": CACHE, **edit})
    assert pod_template(bundle_of(before)) != pod_template(bundle_of(after)), (
        "the edit does not reach the pods"
    )
    assert pod_spec_hash(before.spec) != pod_spec_hash(after.spec)


def test_a_field_left_at_its_default_says_the_same_as_an_absent_one() -> None:
    said = tier(
        engine={"tensorParallel": 1, "extraArgs": [], "batching": {}, "promptCache": {"enabled": True}},
        hardware={"hosts": 1, "tolerations": [], "nodePool": {}, "resources": {}},
        podTemplate={},
        cache={},
    )
    assert pod_spec_hash(said.spec) == pod_spec_hash(tier().spec)


def test_the_users_image_is_never_replaced_by_the_one_in_use() -> None:
    wanted = tier(engine={"image": "example.com/own:v1.2.3"})
    assert bundle_of(wanted, pinned_by(wanted)).engine_image == "example.com/own:v1.2.3"


@pytest.mark.parametrize(
    "live",
    [
        None,
        {},
        {"metadata": None},
        {"metadata": {"annotations": None}},
        {"metadata": {"annotations": {"tierwright.dev/engine-image": "x"}}},
        {"metadata": {"annotations": {"tierwright.dev/pod-spec-hash": "x"}}},
    ],
)
def test_a_workload_that_does_not_say_what_it_runs_pins_nothing(live: dict[str, Any] | None) -> None:
    assert pinned_engine(live) is None


def test_an_image_without_a_version_is_remembered_without_one() -> None:
    wanted = tier("neuron", engine={"image": "example.com/worker:nightly"})
    live = manifest(bundle_of(wanted), "Deployment")
    remembered = pinned_engine(live)
    assert remembered is not None
    assert remembered.version is None
    assert bundle_of(wanted, remembered).engine_version is None


def test_an_older_release_that_rendered_the_same_hash_is_kept_byte_for_byte() -> None:
    wanted = tier()
    again = bundle_of(wanted, pinned_engine(manifest(bundle_of(wanted), "Deployment")))
    assert again == bundle_of(wanted)
    assert engine_container(wanted)["image"] == again.engine_image
