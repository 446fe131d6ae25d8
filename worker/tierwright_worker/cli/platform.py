"""Chooses the device before JAX is imported: it reads its platform, and Neuron's settings, once."""

import os
from pathlib import Path

from tierwright_worker.errors import DeviceError, SettingsError
from tierwright_worker.neuron.environment import neuron_environment

PLATFORMS = ("auto", "cpu", "cuda", "neuron")


def choose_platform(platform: str, *, compile_cache: Path | None, cores: int, dtype: str = "") -> None:
    """Set the environment for `platform` (one of PLATFORMS; auto: what JAX finds), and see that its device is there.

    Raises:
        SettingsError: Neuron's cores or flags contradict the settings, or it cannot compute in `dtype`.
        DeviceError: there is no such device, or its driver does not answer.
    """
    if platform == "auto":
        return
    if platform == "neuron" and dtype == "int8":
        raise SettingsError(
            "--dtype int8 cannot be computed on neuron, which has no products of whole numbers; use bfloat16"
        )
    # Neuron computes trifles on the CPU, which must be there as well.
    os.environ["JAX_PLATFORMS"] = "neuron,cpu" if platform == "neuron" else platform
    if platform == "neuron":
        os.environ.update(neuron_environment(os.environ, compile_cache=compile_cache, cores=cores))
    import jax

    try:
        jax.devices()
    except Exception as error:  # plugins raise whatever they like, assertions among them
        raise DeviceError(
            f"--platform {platform}: no such device can be used here: {str(error) or type(error).__name__}; "
            "is this the image of the right flavour, and did the pod ask for the device?"
        ) from error
