"""Each engine gets its image, version, environment and user; what is not built yet is refused in words."""

from typing import Any

import pytest

from tests.support.tier_bundles import flag, tier
from tierwright.api.conditions import Reason
from tierwright.engines.catalog import engine_plan
from tierwright.engines.engine import EnginePlan, EngineRequest
from tierwright.engines.images import version_from_image
from tierwright.hardware.refusal import Refusal, RefusedError


def plan(
    accelerator: str = "nvidia", image: str | None = None, version: str | None = None, **spec: Any
) -> EnginePlan:
    request = EngineRequest("/models/m", None, 300, 1800, image, version)
    return engine_plan(tier(accelerator, **spec).spec, request)


def refusal(accelerator: str, **spec: Any) -> Refusal:
    with pytest.raises(RefusedError) as caught:
        plan(accelerator, **spec)
    return caught.value.refusal


@pytest.mark.parametrize(
    ("accelerator", "image"),
    [("nvidia", "vllm/vllm-openai:v0.32.0"), ("cpu", "vllm/vllm-openai-cpu:v0.32.0")],
)
def test_the_default_image_is_a_version_of_the_engine_for_the_accelerator(
    accelerator: str, image: str
) -> None:
    default = plan(accelerator)
    assert (default.image, default.version) == (image, "0.32.0")
    assert not default.warnings


def test_a_version_chooses_the_image() -> None:
    assert plan(engine={"version": "0.32.1"}).image == "vllm/vllm-openai:v0.32.1"


def test_an_image_tells_its_version() -> None:
    mirrored = plan(engine={"image": "registry.example.com:5000/mirror/vllm-openai:v0.32.1-x86_64"})
    assert mirrored.version == "0.32.1"


def test_an_image_that_tells_no_version_is_taken_for_the_newest_known() -> None:
    assert plan(engine={"image": "example.com/own:nightly"}).version == "0.32.0"


def test_the_users_version_is_stronger_than_the_tag() -> None:
    named = plan(engine={"image": "example.com/own:v0.31.0", "version": "0.32.0"})
    assert named.version == "0.32.0"


def test_the_image_in_use_stays_although_the_default_is_newer() -> None:
    pinned = plan(image="vllm/vllm-openai:v0.31.0", version="0.31.0")
    assert (pinned.image, pinned.version) == ("vllm/vllm-openai:v0.31.0", "0.31.0")


def test_an_image_in_use_without_a_version_is_taken_for_the_newest_known() -> None:
    assert plan(image="vllm/vllm-openai:nightly").version == "0.32.0"


def test_the_users_image_is_stronger_than_the_one_in_use() -> None:
    assert plan(image="old:1", engine={"image": "new:2"}).image == "new:2"


def test_a_version_that_was_not_checked_is_warned_of() -> None:
    (warning,) = plan(engine={"version": "0.29.0"}).warnings
    assert "0.29.0" in warning
    assert warning.startswith("spec.engine.version")


@pytest.mark.parametrize("accelerator", ["nvidia", "cpu"])
def test_vllm_waits_for_its_engine_as_long_as_the_startup_budget(accelerator: str) -> None:
    assert plan(accelerator).env["VLLM_ENGINE_READY_TIMEOUT_S"] == "1800"


@pytest.mark.parametrize("accelerator", ["nvidia", "neuron", "cpu"])
def test_every_cache_of_an_engine_lies_on_the_tiers_volume(accelerator: str) -> None:
    paths = [value for value in plan(accelerator).env.values() if value.startswith("/")]
    assert paths
    assert all(path == "/cache" or path.startswith("/cache/") for path in paths)


def test_vllm_runs_as_the_user_that_its_image_is_prepared_for() -> None:
    assert (plan().uid, plan().gid) == (2000, 0)


@pytest.mark.parametrize(
    ("accelerator", "spec", "path"),
    [
        ("neuron", {"engine": {"type": "vllm"}}, "spec.engine.type"),
        ("neuron", {"engine": {"promptCache": {"scope": "Tenant"}}}, "spec.engine.promptCache.scope"),
        ("nvidia", {"engine": {"promptCache": {"scope": "Tenant"}}}, "spec.engine.promptCache.scope"),
    ],
)
def test_what_is_not_built_yet_is_refused_with_its_field(
    accelerator: str, spec: dict[str, Any], path: str
) -> None:
    found = refusal(accelerator, **spec)
    assert found.path == path
    assert found.reason is Reason.UNSUPPORTED
    assert "not" in found.message


def test_vllm_on_cpu_leaves_memory_for_its_own_processes() -> None:
    args = list(plan("cpu").args)
    assert flag(args, "--gpu-memory-utilization") == "0.7"
    assert "--gpu-memory-utilization" not in plan().args


def test_the_users_share_of_memory_is_stronger() -> None:
    args = list(plan("cpu", engine={"kvCache": {"memoryFraction": "0.4"}}).args)
    assert flag(args, "--gpu-memory-utilization") == "0.4"


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.32.0", "0.32.0"),
        ("vllm/vllm-openai:0.32", "0.32"),
        ("localhost/tierwright/worker:0.1.0-cpu", "0.1.0"),
        ("vllm/vllm-openai:v0.32.0rc1-x86_64", "0.32.0rc1"),
        ("host:5000/vllm-openai", None),
        ("host:5000/vllm-openai:v1.2.3@sha256:abc", "1.2.3"),
        ("vllm-openai@sha256:abc", None),
        ("vllm-openai:latest", None),
        ("vllm-openai:20261130", None),
    ],
)
def test_versions_are_read_from_tags_alone(image: str, version: str | None) -> None:
    assert version_from_image(image) == version
