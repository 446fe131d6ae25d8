"""Decides how weights reach the engine: fetched once onto the weights volume, or mounted, and read-only for the server."""

from dataclasses import dataclass
from typing import Any, Final

from tierwright.api.tier import InferenceTier
from tierwright.desired.pvc import cache_volume
from tierwright.desired.sources import ClaimSource, FileSource, HubSource, Source, parse_source

WEIGHTS_VOLUME: Final = "weights"
WEIGHTS_PATH: Final = "/models"
_MODEL_FIELD: Final = "spec.model.source"
_DRAFT_FIELD: Final = "spec.engine.speculation.draftModel.source"


@dataclass(frozen=True)
class WeightsPlan:
    """Volumes, mounts and folders of the model and of its draft model."""

    model_path: str
    """Folder of the model inside the container."""
    draft_path: str | None
    fetch: tuple[HubSource, ...]
    """What an init container fetches onto the weights volume, each once."""
    volumes: tuple[dict[str, Any], ...]
    mounts: tuple[dict[str, Any], ...]
    """The server's mounts, all read-only."""


def weights_plan(tier: InferenceTier) -> WeightsPlan:
    """How the tier's weights reach its engine.

    Raises:
        RefusedError: a source that is not built yet or names nothing.
    """
    model = parse_source(tier.spec.model.source, _MODEL_FIELD)
    draft = _draft_source(tier)
    sources = [source for source in (model, draft) if source is not None]
    fetch = tuple(dict.fromkeys(source for source in sources if isinstance(source, HubSource)))
    volumes: list[dict[str, Any]] = []
    mounts: list[dict[str, Any]] = []
    if fetch:
        volumes.append(cache_volume(tier, WEIGHTS_VOLUME, tier.spec.cache.weights))
        mounts.append(_read_only(WEIGHTS_VOLUME, WEIGHTS_PATH))
    claims = list(dict.fromkeys(source.claim for source in sources if isinstance(source, ClaimSource)))
    for index, claim in enumerate(claims):
        volumes.append({"name": _claim_volume(index), "persistentVolumeClaim": {"claimName": claim}})
        mounts.append(_read_only(_claim_volume(index), _claim_path(index)))
    return WeightsPlan(
        model_path=_folder(model, claims),
        draft_path=None if draft is None else _folder(draft, claims),
        fetch=fetch,
        volumes=tuple(volumes),
        mounts=tuple(mounts),
    )


def _draft_source(tier: InferenceTier) -> Source | None:
    speculation = tier.spec.engine.speculation
    if speculation is None or speculation.draft_model is None:
        return None
    return parse_source(speculation.draft_model.source, _DRAFT_FIELD)


def _folder(source: Source, claims: list[str]) -> str:
    if isinstance(source, HubSource):
        return f"{WEIGHTS_PATH}/{source.folder}"
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
