"""Decides what a source means: a repository of a hub, a prefix of a bucket, a path, or a path on a mounted claim."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tierwright_worker.errors import SettingsError

_HUB: Final = re.compile(
    r"(?P<repository>[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?)(@(?P<revision>[A-Za-z0-9._/-]+))?"
)
_BUCKET: Final = re.compile(r"(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(/(?P<prefix>.*))?")
_CLAIM: Final = re.compile(r"(?P<claim>[a-z0-9]([-a-z0-9.]*[a-z0-9])?)(/(?P<path>.*))?")


@dataclass(frozen=True, slots=True)
class HubSource:
    """A repository of the Hugging Face hub. `revision`: branch, tag or commit."""

    repository: str
    revision: str

    def __str__(self) -> str:
        return f"hf://{self.repository}@{self.revision}"


@dataclass(frozen=True, slots=True)
class BucketSource:
    """A prefix of an S3 bucket, without slashes at its ends; empty for the whole bucket."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


@dataclass(frozen=True, slots=True)
class FolderSource:
    """A folder or a file that is there already; `said` is how the user called it."""

    path: Path
    said: str

    def __str__(self) -> str:
        return self.said


Source = HubSource | BucketSource | FolderSource


def parse_source(text: str, claims: Mapping[str, Path]) -> Source:
    """The source that a text such as ``hf://owner/repo@main`` names. `claims`: where volume claims are mounted.

    Raises:
        SettingsError: a scheme that is not known, a text that names nothing, or a claim that is not mounted.
    """
    scheme, _, rest = text.partition("://")
    if ".." in Path(rest).parts:
        raise SettingsError(f"{text}: a source may not hold '..'; write the folder's own path")
    if scheme == "hf":
        return _hub(text, rest)
    if scheme == "s3":
        return _bucket(text, rest)
    if scheme == "file":
        if not rest.startswith("/") or rest.strip("/") == "":
            raise SettingsError(f"{text}: write a file source as file:///path")
        return FolderSource(Path(rest), text)
    if scheme == "pvc":
        return _claim(text, rest, claims)
    raise SettingsError(
        f"{text}: write a source as hf://owner/repo, s3://bucket/prefix, file:///path or pvc://claim/path"
    )


def _hub(text: str, rest: str) -> HubSource:
    match = _HUB.fullmatch(rest)
    if match is None:
        raise SettingsError(f"{text}: write a hub source as hf://owner/repo or hf://owner/repo@revision")
    return HubSource(match["repository"], match["revision"] or "main")


def _bucket(text: str, rest: str) -> BucketSource:
    match = _BUCKET.fullmatch(rest)
    if match is None:
        raise SettingsError(f"{text}: write a bucket source as s3://bucket/prefix")
    return BucketSource(match["bucket"], (match["prefix"] or "").strip("/"))


def _claim(text: str, rest: str, claims: Mapping[str, Path]) -> FolderSource:
    match = _CLAIM.fullmatch(rest)
    if match is None:
        raise SettingsError(f"{text}: write a volume source as pvc://claim or pvc://claim/path")
    mounted = claims.get(match["claim"])
    if mounted is None:
        raise SettingsError(
            f"{text}: claim {match['claim']} is not known here; mount it and say where: --claim {match['claim']}=/path"
        )
    return FolderSource(mounted / (match["path"] or "").strip("/"), text)
