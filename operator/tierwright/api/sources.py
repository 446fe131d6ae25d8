"""Decides what a model source means: a repository or a bucket to fetch, a claim to mount, or a path in the container.

The one grammar of sources: the API's rules and the operator's volumes are both made from it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

FORMS: Final[Mapping[str, str]] = {
    "hf": r"^hf://[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+(@[A-Za-z0-9][A-Za-z0-9._/-]*)?$",
    "s3": r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?$",
    "pvc": r"^pvc://[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?(/.*)?$",
    "file": r"^file:///.*[^/.].*$",
}
"""The scheme of each source that is built, and its form, as both Python and the API server read a pattern."""
DOWNLOADED: Final = ("hf://", "s3://")
"""Beginnings of sources whose weights have to be fetched before the engine can start."""
DEFAULT_REVISION: Final = "main"


@dataclass(frozen=True)
class HubSource:
    """A repository of the Hugging Face hub."""

    repository: str
    revision: str
    """Branch, tag or commit."""

    def __str__(self) -> str:
        return f"hf://{self.repository}@{self.revision}"


@dataclass(frozen=True)
class BucketSource:
    """A prefix of an S3 bucket."""

    bucket: str
    prefix: str
    """Without slashes at its ends; empty for the whole bucket."""

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


@dataclass(frozen=True)
class ClaimSource:
    """A folder, or a file, on a PersistentVolumeClaim of the tier's namespace."""

    claim: str
    path: str
    """Relative to the volume; empty for its root."""


@dataclass(frozen=True)
class FileSource:
    """A path inside the container: in the image, or on a volume that podTemplate mounts."""

    path: str


FetchedSource = HubSource | BucketSource
Source = FetchedSource | ClaimSource | FileSource


def parse_source(text: str) -> Source | None:
    """The source that a text such as ``hf://owner/repo@main`` names; None where it has no form or leaves its folder."""
    scheme, _, rest = text.partition("://")
    form = FORMS.get(scheme)
    if form is None or re.fullmatch(form, text) is None or climbs(text):
        return None
    if scheme == "hf":
        repository, _, revision = rest.partition("@")
        return HubSource(repository, revision or DEFAULT_REVISION)
    if scheme == "s3":
        bucket, _, prefix = rest.partition("/")
        return BucketSource(bucket, prefix.strip("/"))
    if scheme == "pvc":
        claim, _, path = rest.partition("/")
        return ClaimSource(claim, _plain(path))
    return FileSource(f"/{_plain(rest)}")


def climbs(text: str) -> bool:
    """Whether a step of the source's path leaves its folder."""
    return ".." in text.split("/")


def _plain(path: str) -> str:
    """The path without empty steps and steps that stay where they are."""
    return "/".join(part for part in path.split("/") if part not in ("", "."))
