"""Decides how weights reach the engine: fetched once onto the weights volume, or mounted, and read-only for the server."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tierwright.api.engine import EngineType
from tierwright.api.sources import (
    BucketSource,
    ClaimSource,
    FetchedSource,
    FileSource,
    HubSource,
    Source,
    parse_source,
)
from tierwright.api.tier import InferenceTier
from tierwright.desired.names import label_value
from tierwright.desired.pvc import cache_volume
from tierwright.hardware.refusal import invalid, unsupported

WEIGHTS_VOLUME: Final = "weights"
WEIGHTS_PATH: Final = "/models"
_MODEL_FIELD: Final = "spec.model.source"
_DRAFT_FIELD: Final = "spec.engine.speculation.draftModel.source"


@dataclass(frozen=True)
class Fetch:
    """Weights that an init container fetches onto the weights volume."""

    source: FetchedSource
    folder: str
    """Where to, inside the container; a folder per revision, so that one never mixes two."""


@dataclass(frozen=True)
class WeightsPlan:
    """Volumes, mounts and folders of the model and of its draft model."""

    model_path: str
    """Folder, or file, of the model inside the container."""
    draft_path: str | None
    fetch: tuple[Fetch, ...]
    """What is fetched onto the weights volume, each once."""
    volumes: tuple[dict[str, Any], ...]
    mounts: tuple[dict[str, Any], ...]
    """The server's mounts, all read-only."""


def weights_plan(tier: InferenceTier) -> WeightsPlan:
    """How the tier's weights reach its engine.

    Raises:
        RefusedError: a source that names nothing, that the engine's image cannot fetch, or that would be hidden.
    """
    named = dict(_named_sources(tier))
    fetched = {field: source for field, source in named.items() if isinstance(source, FetchedSource)}
    _refuse_what_cannot_be_fetched(tier, fetched)
    _refuse_what_would_be_hidden(named, hidden=bool(fetched))
    volumes: list[dict[str, Any]] = []
    mounts: list[dict[str, Any]] = []
    if fetched:
        volumes.append(cache_volume(tier, WEIGHTS_VOLUME, tier.spec.cache.weights))
        mounts.append(_read_only(WEIGHTS_VOLUME, WEIGHTS_PATH))
    claims = list(dict.fromkeys(source.claim for source in named.values() if isinstance(source, ClaimSource)))
    for index, claim in enumerate(claims):
        volumes.append({"name": _claim_volume(index), "persistentVolumeClaim": {"claimName": claim}})
        mounts.append(_read_only(_claim_volume(index), _claim_path(index)))
    draft = named.get(_DRAFT_FIELD)
    return WeightsPlan(
        model_path=_folder(named[_MODEL_FIELD], claims),
        draft_path=None if draft is None else _folder(draft, claims),
        fetch=tuple(Fetch(source, _folder(source, claims)) for source in dict.fromkeys(fetched.values())),
        volumes=tuple(volumes),
        mounts=tuple(mounts),
    )


def _named_sources(tier: InferenceTier) -> Iterator[tuple[str, Source]]:
    """Each source under the path of its field."""
    texts = {_MODEL_FIELD: tier.spec.model.source}
    speculation = tier.spec.engine.speculation
    if speculation is not None and speculation.draft_model is not None:
        texts[_DRAFT_FIELD] = speculation.draft_model.source
    for field, text in texts.items():
        source = parse_source(text)
        if source is None:
            raise invalid(
                field,
                "write a source as hf://owner/repo@revision, s3://bucket/prefix, pvc://claim/path or file:///path, "
                "without '..'",
            )
        yield field, source


def _refuse_what_cannot_be_fetched(tier: InferenceTier, fetched: Mapping[str, FetchedSource]) -> None:
    """The images of vLLM hold what fetches from the hub, and nothing that fetches from a bucket."""
    for field, source in fetched.items():
        if isinstance(source, BucketSource) and tier.spec.engine.type is not EngineType.JAX:
            raise unsupported(
                field,
                f"s3:// is not fetched for {tier.spec.engine.type} yet; use hf://owner/repo, or put the weights onto "
                "a volume and use pvc://claim/path",
            )


def _refuse_what_would_be_hidden(named: Mapping[str, Source], *, hidden: bool) -> None:
    for field, source in named.items():
        if hidden and isinstance(source, FileSource) and f"{source.path}/".startswith(f"{WEIGHTS_PATH}/"):
            raise invalid(
                field,
                f"{WEIGHTS_PATH} is where the fetched weights are mounted, which hides what the image holds there; "
                "put the file elsewhere in the image",
            )


def _folder(source: Source, claims: list[str]) -> str:
    if isinstance(source, HubSource):
        return f"{WEIGHTS_PATH}/hf/{source.repository}/{source.revision.replace('/', '--')}"
    if isinstance(source, BucketSource):
        return f"{WEIGHTS_PATH}/s3/{source.bucket}/{label_value(source.prefix) or 'all'}"
    if isinstance(source, FileSource):
        return source.path
    root = _claim_path(claims.index(source.claim))
    return f"{root}/{source.path}" if source.path else root


def _claim_volume(index: int) -> str:
    return f"source-{index}"


def _claim_path(index: int) -> str:
    return f"/sources/{index}"


def _read_only(volume: str, path: str) -> dict[str, Any]:
    return {"name": volume, "mountPath": path, "readOnly": True}
