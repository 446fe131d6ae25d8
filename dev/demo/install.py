"""The project's own images, and the chart installed from the tree as a user would."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from dev.cluster.images.image import Image, build_image
from dev.demo.kubectl import Tools

ROOT: Final = Path(__file__).resolve().parents[2]
OPERATOR_IMAGE: Final = "localhost/tierwright/operator:dev"
ENGINE_IMAGE: Final = "localhost/tierwright/engine-sim:dev"


def build_operator_image(progress: Callable[[str], None] = print) -> Image:
    """The operator's image from the present tree, unless it is built.

    Raises:
        dev.cluster.images.buildah.BuildError: it could not be built.
    """
    return build_image(OPERATOR_IMAGE, ROOT, target="operator", progress=progress)


def build_images(progress: Callable[[str], None] = print) -> list[Image]:
    """The operator's and the engine simulator's image from the present tree, unless they are built.

    Raises:
        dev.cluster.images.buildah.BuildError: one could not be built.
    """
    simulator = ROOT / "dev" / "engine_sim" / "Dockerfile"
    return [
        build_operator_image(progress),
        build_image(ENGINE_IMAGE, ROOT, dockerfile=simulator, progress=progress),
    ]


def install(tools: Tools, system: str, image: str = OPERATOR_IMAGE) -> None:
    """Install Tierwright into the namespace ``system`` with Helm, or anew, and wait until the operator is ready.

    Raises:
        CommandError: Helm failed.
    """
    repository, _, tag = image.rpartition(":")
    tools.helm(
        *("upgrade", "--install", "tierwright", str(ROOT / "charts" / "tierwright")),
        *("--namespace", system, "--create-namespace", "--wait", "--timeout", "180s"),
        *("--set", f"image.repository={repository},image.tag={tag}"),
    )


def uninstall(tools: Tools, system: str) -> None:
    """Take the release away, if it is there.

    Raises:
        CommandError: Helm failed.
    """
    tools.helm("uninstall", "tierwright", "--namespace", system, "--ignore-not-found", "--wait")
