"""Decides what is allowed but likely not meant: shown in the tier's status and by ``render``."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from tierwright.api.hardware import Accelerator, HardwareSpec
from tierwright.api.scalars import duration_seconds
from tierwright.api.tier import TierSpec

# Upper bounds in seconds of the buckets in which vLLM 0.32 counts requests, read from its metrics page.
_FIRST_TOKEN_BOUNDS: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_PER_TOKEN_BOUNDS: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0),
)
_LARGE_BATCH: Final = 64
_INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
_SMALL_NEURON_HOST: Final = "inf2.xlarge"


def tier_warnings(spec: TierSpec) -> tuple[str, ...]:
    """One sentence for each doubt, beginning with the field that it is about."""
    return (*_objectives(spec), *_speculation(spec), *_small_host(spec.hardware))


def _objectives(spec: TierSpec) -> Iterator[str]:
    objectives = spec.scaling.objectives
    if objectives is None:
        return
    for field, text, bounds in (
        ("timeToFirstToken", objectives.time_to_first_token, _FIRST_TOKEN_BOUNDS),
        ("timePerOutputToken", objectives.time_per_output_token, _PER_TOKEN_BOUNDS),
    ):
        if text is not None and duration_seconds(text) not in bounds:
            yield (
                f"spec.scaling.objectives.{field}: the engine counts requests in steps, and {text} is none of them, "
                f"so the share that meets it is an estimate; {_neighbours(duration_seconds(text), bounds)}"
            )


def _neighbours(seconds: float, bounds: tuple[float, ...]) -> str:
    above = bisect_left(bounds, seconds)
    around = [_milliseconds(bound) for bound in bounds[max(0, above - 1) : above + 1]]
    return f"exact is {' or '.join(around)}"


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def _speculation(spec: TierSpec) -> Iterator[str]:
    speculation, sequences = spec.engine.speculation, spec.engine.batching.max_sequences
    if speculation is None or speculation.disable_above_batch_size is not None:
        return
    if sequences is None or sequences >= _LARGE_BATCH:
        yield (
            "spec.engine.speculation: in a large batch, proposed tokens cost more than they save; set "
            f"disableAboveBatchSize, or batching.maxSequences below {_LARGE_BATCH}"
        )


def _small_host(hardware: HardwareSpec) -> Iterator[str]:
    if hardware.accelerator is Accelerator.NEURON and _SMALL_NEURON_HOST in _instance_types(hardware):
        yield (
            f"spec.hardware.nodePool: {_SMALL_NEURON_HOST} has 16 GiB of host memory, which compiling a model can "
            "exceed; compile on a larger host onto a shared compile cache, or use inf2.8xlarge"
        )


def _instance_types(hardware: HardwareSpec) -> set[str]:
    pool = hardware.node_pool
    types = {value for key, value in pool.match_labels.items() if key == _INSTANCE_TYPE_LABEL}
    for expression in pool.match_expressions:
        if expression.key == _INSTANCE_TYPE_LABEL and expression.operator == "In":
            types.update(expression.values)
    return types
