"""Decides what a model source means: a repository to fetch, a claim to mount, or a path that is in the container already."""

import re
from dataclasses import dataclass
from typing import Final

from tierwright.hardware.refusal import RefusedError, invalid, unsupported

_HUB: Final = re.compile(
    r"(?P<repository>[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?)(@(?P<revision>[A-Za-z0-9._/-]+))?"
)
_CLAIM: Final = re.compile(r"(?P<claim>[a-z0-9]([-a-z0-9.]*[a-z0-9])?)(?P<path>(/.*)?)")


@dataclass(frozen=True)
class HubSource:
    """A repository of the Hugging Face hub."""

    repository: str
    revision: str
    """Branch, tag or commit."""

    @property
    def folder(self) -> str:
        """Where the weights lie, relative to the weights volume; a folder per revision, so that one never mixes two."""
        return f"hf/{self.repository}/{self.revision.replace('/', '--')}"


@dataclass(frozen=True)
class ClaimSource:
    """A folder on a PersistentVolumeClaim of the tier's namespace."""

    claim: str
    path: str
    """Relative to the volume; empty for its root."""


@dataclass(frozen=True)
class FileSource:
    """A path inside the container: in the image, or on a volume that podTemplate mounts."""

    path: str


Source = HubSource | ClaimSource | FileSource


def parse_source(text: str, field_path: str) -> Source:
    """The source that a text such as ``hf://owner/repo@main`` names.

    Raises:
        RefusedError: a scheme that is not built yet, or a text that names nothing.
    """
    scheme, _, rest = text.partition("://")
    if scheme == "hf":
        return _hub(rest, field_path)
    if scheme == "pvc":
        return _claim(rest, field_path)
    if scheme == "file":
        return _file(rest, field_path)
    raise unsupported(
        field_path,
        f"{scheme}:// is not supported yet; use hf://owner/repo, or put the weights onto a volume and use "
        "pvc://claim/path",
    )


def _hub(rest: str, field_path: str) -> HubSource:
    match = _HUB.fullmatch(rest)
    if match is None or ".." in rest:
        raise invalid(field_path, "write a hub source as hf://owner/repo or hf://owner/repo@revision")
    return HubSource(match["repository"], match["revision"] or "main")


def _claim(rest: str, field_path: str) -> ClaimSource:
    match = _CLAIM.fullmatch(rest)
    if match is None:
        raise invalid(field_path, "write a volume source as pvc://claim or pvc://claim/path")
    return ClaimSource(match["claim"], "/".join(_parts(match["path"], field_path)))


def _file(rest: str, field_path: str) -> FileSource:
    parts = _parts(rest, field_path)
    if not rest.startswith("/") or not parts:
        raise _bad_file(field_path)
    return FileSource("/" + "/".join(parts))


def _bad_file(field_path: str) -> RefusedError:
    return invalid(
        field_path,
        "write a file source as file:///path: a folder in the engine's image or on a volume that podTemplate mounts",
    )


def _parts(path: str, field_path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise invalid(field_path, "a source may not hold '..'; write the folder's own path")
    return parts
