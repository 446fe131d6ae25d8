"""Decides which version of an engine an image holds, from its tag."""

import re
from typing import Final

_VERSION_TAG: Final = re.compile(r"v?([0-9]+\.[0-9]+(?:\.[0-9]+)?[0-9A-Za-z.+_]*)(?:-.*)?")


def version_from_image(image: str) -> str | None:
    """The version that an image's tag names, such as ``0.32.0`` for ``vllm/vllm-openai:v0.32.0-x86_64``.

    None when there is no tag, or it names no version, such as ``nightly``.
    """
    name = image.split("@", 1)[0].rsplit("/", 1)[-1]
    _, _, tag = name.partition(":")
    match = _VERSION_TAG.fullmatch(tag)
    return match.group(1) if match else None
