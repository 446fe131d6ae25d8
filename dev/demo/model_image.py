"""Builds the image that the demo's tiers run: the JAX worker for CPUs, with a small real model in it."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from dev.cluster.images.image import Image, build_image

ROOT: Final = Path(__file__).resolve().parents[2]
WORKER_IMAGE: Final = "localhost/tierwright/worker:dev-cpu"
MODEL_IMAGE: Final = "localhost/tierwright/worker-smollm2:dev"
SOURCE: Final = "file:///models/smollm2.gguf"
"""What a tier's `model.source` says for the model in the image."""


def build_model_image(progress: Callable[[str], None] = print) -> Image:
    """The image with worker and model; built anew only when one of its inputs has changed.

    Raises:
        dev.cluster.images.buildah.BuildError: it could not be built.
    """
    worker = build_image(
        WORKER_IMAGE, ROOT, target="worker", build_args={"FLAVOUR": "cpu"}, progress=progress
    )
    return build_image(
        MODEL_IMAGE,
        ROOT,
        dockerfile=Path(__file__).with_name("model.Dockerfile"),
        # The archive's name holds the digest of all that went into the worker's image; without it a new worker
        # would go unnoticed here.
        build_args={"WORKER_IMAGE": worker.reference, "WORKER_DIGEST": worker.archive.stem},
        progress=progress,
    )
