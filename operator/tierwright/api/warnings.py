"""Decides what to warn about: settings that are allowed but likely not meant."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

from tierwright.api.engine import EngineType
from tierwright.api.hardware import Accelerator
from tierwright.api.latency_buckets import (
    TIME_PER_OUTPUT_TOKEN_BUCKETS,
    TIME_TO_FIRST_TOKEN_BUCKETS,
    is_told,
    neighbours,
)
from tierwright.api.rules.sources import any_downloaded, is_downloaded
from tierwright.api.scalars import duration_seconds, quantity_value
from tierwright.api.tier import TierSpec

_LARGE_BATCH: Final = 32
"""Requests in one step from which verifying proposed tokens costs more than it saves on most devices."""
_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
_SMALL_HOST: Final = "inf2.xlarge"
_SMALL_HOST_MEMORY: Final = "14Gi"


def tier_warnings(spec: TierSpec) -> tuple[str, ...]:
    """What is likely not meant, each as ``field path: what happens; what to do``."""
    return tuple(words for look in _LOOKS for words in look(spec))


def _objectives(spec: TierSpec) -> Sequence[str]:
    wanted = spec.scaling.objectives
    if wanted is None:
        return ()
    path = "spec.scaling.objectives"
    return (
        *_unresolved(f"{path}.timeToFirstToken", wanted.time_to_first_token, TIME_TO_FIRST_TOKEN_BUCKETS),
        *_unresolved(
            f"{path}.timePerOutputToken", wanted.time_per_output_token, TIME_PER_OUTPUT_TOKEN_BUCKETS
        ),
    )


def _unresolved(path: str, objective: str | None, buckets: Sequence[float]) -> Sequence[str]:
    """An objective is told from the engine's histogram only where two of its bounds are near."""
    seconds = None if objective is None else duration_seconds(objective)
    if seconds is None:
        return ()
    below, above = neighbours(buckets, seconds)
    if is_told(below, above, seconds):
        return ()
    near = " or ".join(_milliseconds(bound) for bound in (below, above) if bound is not None)
    return (
        f"{path}: the engine's histogram has no bound near {objective}, so attainment is an estimate; use {near}",
    )


def _milliseconds(seconds: float) -> str:
    return f"{(Decimal(str(seconds)) * 1000).normalize():f}ms"


def _speculation(spec: TierSpec) -> Sequence[str]:
    speculation, batch = spec.engine.speculation, spec.engine.batching.max_sequences
    if speculation is None or speculation.disable_above_batch_size is not None:
        return ()
    if spec.engine.type is EngineType.JAX and batch is None:
        return ()  # the worker's own is small
    if batch is not None and batch <= _LARGE_BATCH:
        return ()
    size = "the engine's own, often 256 or more," if batch is None else str(batch)
    return (
        f"spec.engine.speculation: at a batch of {size} it costs more than it saves; set "
        f"disableAboveBatchSize, or batching.maxSequences to {_LARGE_BATCH} or less",
    )


def _small_neuron_host(spec: TierSpec) -> Sequence[str]:
    hardware = spec.hardware
    types = {hardware.node_pool.match_labels.get(_INSTANCE_TYPE)}
    for expression in hardware.node_pool.match_expressions:
        if expression.key == _INSTANCE_TYPE and expression.operator == "In":
            types |= set(expression.values)
    if hardware.accelerator is not Accelerator.NEURON or _SMALL_HOST not in types:
        return ()
    memory = hardware.resources.memory
    if memory is not None and quantity_value(memory) > quantity_value(_SMALL_HOST_MEMORY):
        return (
            f"spec.hardware.resources.memory: {_SMALL_HOST} has 16 GiB in all, so {memory} never fits; ask for "
            f"{_SMALL_HOST_MEMORY} or less, or use inf2.8xlarge",
        )
    return (
        f"spec.hardware.nodePool: {_SMALL_HOST} has 16 GiB of host memory, too little to compile most models; "
        "compile on a larger node and share cache.compile, or use inf2.8xlarge",
    )


def _moving_image(spec: TierSpec) -> Sequence[str]:
    image = spec.engine.image
    if image is None or "@" in image:
        return ()
    tag = image.rpartition("/")[2].partition(":")[2]
    if tag not in ("", "latest"):
        return ()
    return (
        f"spec.engine.image: {image} can mean another image tomorrow, on some pods only; name a version or a digest",
    )


def _moving_source(spec: TierSpec) -> Sequence[str]:
    draft = spec.engine.speculation.draft_model if spec.engine.speculation is not None else None
    sources = {"spec.model.source": spec.model.source}
    if draft is not None:
        sources["spec.engine.speculation.draftModel.source"] = draft.source
    return [
        f"{path}: without @revision a pod that starts later may load other weights; add the commit"
        for path, source in sources.items()
        if source.startswith("hf://") and "@" not in source
    ]


def _weights_fetched_by_each_pod(spec: TierSpec) -> Sequence[str]:
    if not any_downloaded(spec):
        return ()
    if spec.cache.weights is not None:
        if spec.cache.weights.sharing == "Shared":
            return ()
        return (
            "spec.cache.weights: each new pod fetches the weights anew onto a volume of its own; use a volume with "
            "sharing: Shared",
        )
    path = (
        "spec.model.source"
        if is_downloaded(spec.model.source)
        else "spec.engine.speculation.draftModel.source"
    )
    return (f"{path}: each pod fetches the weights anew at each start; set cache.weights to keep them",)


def _compiled_by_each_pod(spec: TierSpec) -> Sequence[str]:
    cache = spec.cache.compile
    if (
        spec.engine.type is not EngineType.JAX
        or spec.hardware.accelerator is Accelerator.CPU
        or (cache is not None and cache.sharing == "Shared")
    ):
        return ()
    return (
        "spec.cache.compile: each new pod compiles all programs anew, which takes minutes on a device; use a volume "
        "with sharing: Shared",
    )


def _not_pinned(spec: TierSpec) -> Sequence[str]:
    pool = spec.hardware.node_pool
    if spec.hardware.accelerator is Accelerator.CPU or pool.match_labels or pool.match_expressions:
        return ()
    return ("spec.hardware.nodePool: pods may run on any node with such devices, fast or slow; pin a pool",)


def _start_budget(spec: TierSpec) -> Sequence[str]:
    guess, budget = spec.scaling.cold_start, spec.rollout.startup_timeout
    if guess is None or duration_seconds(guess) < duration_seconds(budget):
        return ()
    return (
        f"spec.rollout.startupTimeout: {budget} is no more than scaling.coldStart ({guess}), so a pod is restarted "
        "before it is ready; raise it",
    )


def _no_host_resources(spec: TierSpec) -> Sequence[str]:
    if spec.hardware.accelerator is not Accelerator.CPU or spec.hardware.resources.cpu is not None:
        return ()
    return (
        "spec.hardware.resources.cpu: nothing is reserved, so neighbours slow the tier; set the cores it needs",
    )


_LOOKS: Final[tuple[Callable[[TierSpec], Sequence[str]], ...]] = (
    _objectives,
    _speculation,
    _small_neuron_host,
    _moving_image,
    _moving_source,
    _weights_fetched_by_each_pod,
    _compiled_by_each_pod,
    _not_pinned,
    _start_budget,
    _no_host_resources,
)


def not_used_yet(spec: TierSpec) -> tuple[str, ...]:
    """Settings that are kept and checked, but that nothing acts on in this release; for the command line alone.

    In status.warnings they would stand for good on every tier that is written with a gateway in mind.
    """
    found = []
    if spec.traffic is not None:
        found.append("spec.traffic: nothing limits or routes requests yet; it waits for the gateway")
    return tuple(found)
