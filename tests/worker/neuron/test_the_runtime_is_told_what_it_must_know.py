"""What is set for a Neuron device before JAX is imported, and how a device that is not there is told."""

from pathlib import Path

import pytest

from tests.worker.cli.processes import process_of
from tierwright_worker.errors import SettingsError
from tierwright_worker.neuron.environment import neuron_environment

CACHE = Path("/cache/jax")


def test_what_must_be_set_is_set() -> None:
    assert neuron_environment({}, compile_cache=CACHE, cores=2) == {
        "NEURON_RT_STOCHASTIC_ROUNDING_EN": "0",
        "JAX_DEFAULT_PRNG_IMPL": "rbg",
        "NEURON_CC_FLAGS": "--auto-cast=none --retry_failed_compilation",
        "NEURON_COMPILE_CACHE_URL": "/cache/jax/neuron",
        "NEURON_RT_NUM_CORES": "2",
    }


def test_what_the_user_and_the_plugin_have_set_stays() -> None:
    given = {
        "NEURON_CC_FLAGS": "-O1 --auto-cast=matmult",
        "NEURON_RT_VISIBLE_CORES": "0-1,4",
        "NEURON_COMPILE_CACHE_URL": "s3://bucket/cache",
    }
    told = neuron_environment(given, compile_cache=CACHE, cores=3)
    assert told["NEURON_CC_FLAGS"] == "-O1 --auto-cast=matmult --retry_failed_compilation"
    assert "NEURON_RT_NUM_CORES" not in told
    assert "NEURON_COMPILE_CACHE_URL" not in told


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"NEURON_RT_VISIBLE_CORES": "0-2"}, r"on 4 Neuron cores, and the pod has 3"),
        ({"NEURON_RT_VISIBLE_CORES": "all"}, "is no list of cores"),
        ({"NEURON_CC_FLAGS": "--cache_dir=/tmp"}, "would win over --compile-cache"),
    ],
)
def test_contradictions_are_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        neuron_environment(given, compile_cache=CACHE, cores=4)


@pytest.mark.parametrize("platform", ["cuda", "neuron"])
def test_a_device_that_is_not_there_is_told_at_once(platform: str, tmp_path: Path) -> None:
    with process_of(
        "-m",
        "tierwright_worker",
        "compile",
        "--model",
        tmp_path,
        "--platform",
        platform,
        "--compile-cache",
        tmp_path,
    ) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 74
    assert f"--platform {platform}: no such device can be used here" in errors
