"""Decides the init containers that fetch weights, once per volume, with the image that the engine has anyway."""

from typing import Any, Final

from tierwright.api.engine import EngineType
from tierwright.api.sources import HubSource
from tierwright.api.tier import InferenceTier
from tierwright.desired.weights import WEIGHTS_PATH, WEIGHTS_VOLUME, WeightsPlan

FETCH_CONTAINER: Final = "fetch-weights"
FETCH_DRAFT_CONTAINER: Final = "fetch-draft-weights"
FETCH_CONTAINERS: Final = (FETCH_CONTAINER, FETCH_DRAFT_CONTAINER)
"""Names of the init containers that fetch weights."""
TOKEN_VARIABLE: Final = "HF_TOKEN"  # noqa: S105 - the name of a variable
# Python and huggingface_hub are what every image of vLLM holds; its folder is complete only once the marker
# stands in it, so a fetch that was cut short goes on at the next start and a complete one needs no network.
# Copies of the weights in formats that the engine does not read are left out.
FETCH_SCRIPT: Final = """\
import pathlib
import sys

arguments = sys.argv[1:]
while arguments:
    repository, revision, folder, *arguments = arguments
    marker = pathlib.Path(folder, ".tierwright-complete")
    if marker.exists():
        print(f"{repository} at {revision} is on the volume already", flush=True)
        continue
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        sys.exit("the engine's image holds no huggingface_hub to fetch hf:// sources with; "
                 "use an image that does, or put the weights onto a volume and use pvc://")
    print(f"fetching {repository} at {revision}", flush=True)
    snapshot_download(
        repository,
        revision=revision,
        local_dir=folder,
        ignore_patterns=["original/*", "metal/*", "*.onnx", "*.h5", "*.msgpack", "*.tflite", "*.ot"],
    )
    marker.touch()
"""


def fetch_containers(
    engine: EngineType,
    plan: WeightsPlan,
    image: str,
    env: list[dict[str, Any]],
    resources: dict[str, Any],
    mounts: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """The init containers that fill the weights volume; none where there is nothing to fetch.

    Args:
        engine: the project's worker fetches by itself, one source at a time; the images of vLLM hold a library.
        plan: what is fetched.
        image: the engine's image.
        env: the token, and the user's environment: proxies, mirrors and the keys of a bucket serve the fetch as well.
        resources: host resources of the engine, without devices: the pod asks for no more by this.
        mounts: the scratch space that every container has.
    """
    if not plan.fetch:
        return []
    if engine is EngineType.JAX:
        runs = [
            (name, {"args": ["fetch", "--source", str(one.source), "--to", one.folder]})
            for name, one in zip(FETCH_CONTAINERS, plan.fetch, strict=False)
        ]
    else:
        runs = [(FETCH_CONTAINER, {"command": ["python3", "-c", FETCH_SCRIPT, *_script_arguments(plan)]})]
    return [
        {
            "name": name,
            "image": image,
            **what,
            "env": env,
            "volumeMounts": [{"name": WEIGHTS_VOLUME, "mountPath": WEIGHTS_PATH}, *mounts],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            **({"resources": resources} if resources else {}),
        }
        for name, what in runs
    ]


def _script_arguments(plan: WeightsPlan) -> list[str]:
    """Three for each source; those that the script cannot fetch are refused by ``weights_plan``."""
    return [
        text
        for one in plan.fetch
        if isinstance(one.source, HubSource)
        for text in (one.source.repository, one.source.revision, one.folder)
    ]


def token_env(tier: InferenceTier) -> list[dict[str, Any]]:
    """The variable that holds the hub's token: a reference to the user's Secret, never a copy of it."""
    reference = tier.spec.model.token_secret_ref
    if reference is None:
        return []
    selected = {"name": reference.name, "key": reference.key}
    return [{"name": TOKEN_VARIABLE, "valueFrom": {"secretKeyRef": selected}}]
