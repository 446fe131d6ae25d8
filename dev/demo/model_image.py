"""Builds the image that the demo's tiers run: the JAX worker for CPUs, with a small real model in it."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from dev.cluster.images.image import Image, build_image

ROOT: Final = Path(__file__).resolve().parents[2]
MODEL_IMAGE: Final = "localhost/tierwright/worker-smollm2:dev"
MODEL: Final = "smollm2-135m-instruct"


def build_model_image(progress: Callable[[str], None] = print) -> Image:
    """The image with worker and model; built anew only when one of its inputs has changed.

    The model lies in the image, at the path that the tiers name as `file:///models/smollm2.gguf`: so the demo needs no
    network once it is built, and no volume to be filled first. What a start makes of it (converted weights, compiled
    programs) is left to the tier's own cache volume, as everywhere.

    Raises:
        dev.cluster.images.buildah.BuildError: it could not be built.
    """
    return build_image(
        MODEL_IMAGE, ROOT, target="worker-smollm2", build_args={"FLAVOUR": "cpu"}, progress=progress
    )
