"""Decides what the Neuron runtime and compiler are told, by environment: they read it once, when JAX is first imported."""

import re
from collections.abc import Mapping
from pathlib import Path

from tierwright_worker.errors import SettingsError

_CACHE = "NEURON_COMPILE_CACHE_URL"
_FLAGS = "NEURON_CC_FLAGS"
_VISIBLE = "NEURON_RT_VISIBLE_CORES"
_CORES = "NEURON_RT_NUM_CORES"
_VISIBLE_PART = re.compile(r"(\d+)(?:-(\d+))?")


def neuron_environment(given: Mapping[str, str], *, compile_cache: Path | None, cores: int) -> dict[str, str]:
    """The variables to set on top of those `given`; what the user or the device plugin has set stays as it is.

    `cores`: how many the worker computes on, one for each part of a split model. Sources: AWS Neuron SDK 2.32, runtime
    configuration (NEURON_RT_*), compiler cache (NEURON_COMPILE_CACHE_URL), JAX on Neuron, "known limitations" (rbg).

    Raises:
        SettingsError: the device plugin gave fewer cores than are needed, or the flags point the cache elsewhere.
    """
    flags = given.get(_FLAGS, "").split()
    if any(flag.startswith("--cache_dir") for flag in flags) and compile_cache is not None:
        raise SettingsError(
            f"--cache_dir in {_FLAGS} would win over --compile-cache {compile_cache}; remove one of them"
        )
    wanted = {
        # Greedy text would change from run to run.
        "NEURON_RT_STOCHASTIC_ROUNDING_EN": "0",
        # JAX's default generator, threefry, is not supported in full.
        "JAX_DEFAULT_PRNG_IMPL": "rbg",
        _FLAGS: " ".join([*flags, *_missing_flags(flags)]),
    }
    if compile_cache is not None:
        wanted[_CACHE] = str(compile_cache / "neuron")
    visible = given.get(_VISIBLE)
    if visible is not None:
        if (there := _count(visible)) < cores:
            raise SettingsError(
                f"the model is computed on {cores} Neuron cores, and the pod has {there} ({_VISIBLE}={visible}); "
                "ask for as many cores as --tensor-parallel-size says"
            )
    else:
        wanted[_CORES] = str(cores)
    kept = (_FLAGS,)  # the user's own flags are part of what is set
    return {name: value for name, value in wanted.items() if name in kept or name not in given}


def _missing_flags(flags: list[str]) -> list[str]:
    ours = {
        # Else the compiler may compute f32 products in bf16.
        "--auto-cast": "--auto-cast=none",
        # A compilation that failed is kept in the cache too; without this each start would fail alike.
        "--retry_failed_compilation": "--retry_failed_compilation",
    }
    return [flag for name, flag in ours.items() if not any(given.split("=")[0] == name for given in flags)]


def _count(visible: str) -> int:
    """How many cores a list such as ``0-3,8`` names."""
    total = 0
    for part in visible.split(","):
        match = _VISIBLE_PART.fullmatch(part.strip())
        if match is None:
            raise SettingsError(f"{_VISIBLE}={visible} is no list of cores such as 0-3")
        total += int(match[2] or match[1]) - int(match[1]) + 1
    return total
