"""Defines what an engine must be told: the request that goes into an engine file and the plan that comes out."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tierwright.api.latency_buckets import TIME_PER_OUTPUT_TOKEN_BUCKETS, TIME_TO_FIRST_TOKEN_BUCKETS

HTTP_PORT: Final = 8000
WORKER_REPOSITORY: Final = "localhost/tierwright/worker"
"""Repository of the project's own worker. No registry: until the project publishes an image, whoever took a name would
run code in its users' clusters. The operator is told another one by a setting."""
CACHE_PATH: Final = "/cache"
"""Where the tier's compile cache is mounted; HOME and every cache of the engine lie below it."""
LATENCY_BUCKETS: Final = (
    "--custom-histogram-buckets",
    json.dumps(
        {
            "inter_token_latency": TIME_PER_OUTPUT_TOKEN_BUCKETS,
            "time_to_first_token": TIME_TO_FIRST_TOKEN_BUCKETS,
        },
        separators=(",", ":"),
    ),
)
"""The argument of vLLM, and of the project's worker, that lays the bounds of latency histograms. Of vLLM's families, the
first is also that of the time per output token."""


@dataclass(frozen=True)
class EngineRequest:
    """What an engine file needs beside the spec."""

    model_path: str
    """Folder of the model's weights inside the container."""
    draft_path: str | None
    """Folder of the draft model's weights, when speculation uses one."""
    drain_seconds: int
    """How long requests in flight may take once the engine is told to stop."""
    startup_seconds: int
    """How long the engine may take until it serves."""
    image: str | None
    """Image that is in use and stays, instead of this release's default."""
    version: str | None
    """Version that belongs to ``image``."""
    worker_repository: str = WORKER_REPOSITORY
    """Where the default images of the project's own worker lie."""


@dataclass(frozen=True)
class EnginePlan:
    """How a container of the engine is started, probed and stopped."""

    image: str
    version: str | None
    """Version whose arguments are generated."""
    args: tuple[str, ...]
    env: Mapping[str, str]
    health_path: str
    """Answers 200 once the engine is ready and as long as it lives."""
    uid: int
    gid: int
    """User and group that the image is prepared for."""
    warnings: tuple[str, ...] = ()
    compile_args: tuple[str, ...] = ()
    """Arguments of a run that fills the compile cache and ends; empty where the engine has no such run."""
