"""The JAX worker gets its image, version, environment and user on every accelerator."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.tier_bundles import engine_container, env_of, tier
from tierwright.engines.catalog import engine_plan
from tierwright.engines.engine import EnginePlan, EngineRequest
from tierwright.engines.jax import NEWEST

WORKER = Path(__file__).parents[3] / "worker" / "pyproject.toml"


def plan(
    accelerator: str = "cpu", in_use: str | None = None, version_in_use: str | None = None, **engine: Any
) -> EnginePlan:
    request = EngineRequest("/models/m", None, 300, 1800, in_use, version_in_use)
    return engine_plan(tier(accelerator, engine={"type": "jax", "image": None, **engine}).spec, request)


@pytest.mark.parametrize(
    ("accelerator", "flavour"), [("cpu", "cpu"), ("nvidia", "cuda"), ("neuron", "neuron")]
)
def test_the_default_image_is_the_worker_of_this_release_for_the_accelerator(
    accelerator: str, flavour: str
) -> None:
    default = plan(accelerator)
    assert default.image == f"localhost/tierwright/worker:0.1.0-{flavour}"
    assert default.version == "0.1.0"
    assert not default.warnings


def test_the_default_image_lies_where_the_operator_is_told() -> None:
    request = EngineRequest(
        "/m", None, 1, 1, None, None, worker_repository="registry.example.com:5000/own/worker"
    )
    engine = {"type": "jax"}
    assert (
        engine_plan(tier("cpu", engine=engine).spec, request).image
        == "registry.example.com:5000/own/worker:0.1.0-cpu"
    )


def test_the_arguments_are_those_of_the_worker_in_this_repository() -> None:
    assert tomllib.loads(WORKER.read_text())["project"]["version"] == NEWEST


def test_the_users_image_is_stronger_and_tells_its_version() -> None:
    own = plan(in_use="old:1", image="example.com/worker:0.1.7-cpu")
    assert (own.image, own.version) == ("example.com/worker:0.1.7-cpu", "0.1.7")
    assert not own.warnings


def test_an_image_that_tells_no_version_has_none_and_is_not_warned_of() -> None:
    assert plan(image="example.com/worker:mine").version is None
    assert not plan(image="example.com/worker:mine").warnings


def test_the_image_in_use_stays_although_the_default_is_newer() -> None:
    pinned = plan("cpu", "localhost/tierwright/worker:0.0.9-cpu", "0.0.9")
    assert (pinned.image, pinned.version) == ("localhost/tierwright/worker:0.0.9-cpu", "0.0.9")


def test_a_version_chooses_the_image_and_one_that_was_not_checked_is_warned_of() -> None:
    newer = plan(version="0.9.0")
    assert newer.image == "localhost/tierwright/worker:0.9.0-cpu"
    (warning,) = newer.warnings
    assert warning.startswith("spec.engine.version")
    assert "0.9.0" in warning


def test_a_neuron_worker_rounds_alike_and_keeps_what_it_compiled_on_the_tiers_volume() -> None:
    env = env_of(engine_container(tier("neuron")))
    assert env["NEURON_RT_STOCHASTIC_ROUNDING_EN"] == "0"
    assert env["NEURON_COMPILE_CACHE_URL"] == "/cache/neuron"
    assert env["JAX_DEFAULT_PRNG_IMPL"] == "rbg"
    assert env["NEURON_RT_NUM_CORES"] == "2"


def test_no_pod_takes_the_cores_that_the_device_plugin_gives_to_others() -> None:
    assert "NEURON_RT_VISIBLE_CORES" not in env_of(engine_container(tier("neuron")))


def test_the_users_flags_for_the_compiler_reach_it() -> None:
    """The worker adds its own to them, such as the one by which a failed compilation is tried again."""
    own = {"name": "NEURON_CC_FLAGS", "value": "--model-type=transformer"}
    assert "NEURON_CC_FLAGS" not in env_of(engine_container(tier("neuron")))
    assert env_of(engine_container(tier("neuron", engine={"env": [own]})))["NEURON_CC_FLAGS"] == own["value"]


@pytest.mark.parametrize("accelerator", ["cpu", "nvidia", "neuron"])
def test_the_probes_ask_what_is_200_only_once_the_engine_is_warm(accelerator: str) -> None:
    """kserve#5062: with a fixed delay big models were killed while they loaded, and small ones waited."""
    wanted = tier(accelerator, engine={"type": "jax"}, rollout={"startupTimeout": "75m"})
    container = engine_container(wanted)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": "/health", "port": "http"}
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 75 * 60


def test_the_worker_runs_as_the_user_of_its_image() -> None:
    assert (plan().uid, plan().gid) == (65532, 65532)
