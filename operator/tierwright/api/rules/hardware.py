"""Rules on where a tier runs: device arithmetic, resource names, node conditions, tolerations, host resources."""

import re
from collections.abc import Callable
from typing import Final

from tierwright.api.hardware import (
    Accelerator,
    HardwareSpec,
    HostResources,
    LabelSelectorRequirement,
    NodePool,
    Toleration,
)
from tierwright.api.rules.keys import is_key, key_cel
from tierwright.api.rules.rule import AnyRule, Figures, Rule, cel_list, quantity
from tierwright.api.scalars import quantity_value
from tierwright.api.tier import TierSpec

NEURON_DEVICE: Final = "aws.amazon.com/neuron"
NEURON_CORE: Final = "aws.amazon.com/neuroncore"
CORES_PER_NEURON_DEVICE: Final = 2
"""NeuronCores of one Inferentia2 or first-generation Trainium chip; later chips are asked for by the core."""
NEURON_CORE_GROUPS: Final = (1, 2, 4, 8, 12, 16, 24, 32, 64)
"""Sizes of tensor-parallel groups whose cores are connected to each other."""
_MIG: Final = "nvidia.com/mig-"
_INTEGER: Final = r"^[0-9]{1,18}$"
_CHIPS_CEL: Final = f"(!has(self.hardware.resourceName) || self.hardware.resourceName == '{NEURON_DEVICE}')"
_PARTS_CEL: Final = "self.engine.tensorParallel * self.engine.pipelineParallel * self.engine.dataParallel"
_DEVICES_CEL: Final = "self.hardware.count * self.hardware.hosts"
_RANKS_CEL: Final = f"{_PARTS_CEL} == {_DEVICES_CEL}"


def _ranks(spec: TierSpec) -> int:
    return spec.engine.tensor_parallel * spec.engine.pipeline_parallel * spec.engine.data_parallel


def _gpus_used_up(spec: TierSpec) -> bool:
    hardware = spec.hardware
    return (
        hardware.accelerator is not Accelerator.NVIDIA
        or hardware.count is None
        or _ranks(spec) == hardware.count * hardware.hosts
    )


def _chips_used_up(spec: TierSpec) -> bool:
    hardware = spec.hardware
    return (
        hardware.accelerator is not Accelerator.NEURON
        or hardware.count is None
        or hardware.resource_name not in (None, NEURON_DEVICE)
        or _ranks(spec) == hardware.count * hardware.hosts * CORES_PER_NEURON_DEVICE
    )


def _cores_used_up(spec: TierSpec) -> bool:
    hardware = spec.hardware
    return (
        hardware.accelerator is not Accelerator.NEURON
        or hardware.count is None
        or hardware.resource_name != NEURON_CORE
        or _ranks(spec) == hardware.count * hardware.hosts
    )


def _connected(spec: TierSpec) -> bool:
    return (
        spec.hardware.accelerator is not Accelerator.NEURON
        or spec.engine.tensor_parallel in NEURON_CORE_GROUPS
    )


def _whole_slices(spec: TierSpec) -> bool:
    name = spec.hardware.resource_name
    return (
        name is None
        or not name.startswith(_MIG)
        or (spec.engine.tensor_parallel == 1 and spec.engine.pipeline_parallel == 1)
    )


def _counted(hardware: HardwareSpec) -> bool:
    return hardware.accelerator is Accelerator.CPU or hardware.count is not None


def _not_counted(hardware: HardwareSpec) -> bool:
    return hardware.accelerator is not Accelerator.CPU or hardware.count is None


def _resource_of_the_accelerator(hardware: HardwareSpec) -> bool:
    name = hardware.resource_name
    if name is None:
        return True
    if hardware.accelerator is Accelerator.NEURON:
        return name in (NEURON_DEVICE, NEURON_CORE)
    return hardware.accelerator is Accelerator.NVIDIA and not name.startswith(NEURON_DEVICE)


def _values_fit_operator(requirement: LabelSelectorRequirement) -> bool:
    values = requirement.values
    match requirement.operator:
        case "In" | "NotIn":
            return bool(values)
        case "Exists" | "DoesNotExist":
            return not values
        case _:
            return len(values) == 1 and re.fullmatch(_INTEGER, values[0]) is not None


def _label_keys(pool: NodePool) -> bool:
    return all(is_key(key) for key in pool.match_labels)


def _no_cpu_is_none(resources: HostResources) -> bool:
    return resources.cpu is None or quantity_value(resources.cpu) > 0


def _at_least_a_mebibyte(field: str, attribute: str) -> AnyRule:
    """A number alone means bytes, and is written by those who mean GiB."""

    def holds(resources: HostResources) -> bool:
        amount: str | None = getattr(resources, attribute)
        return amount is None or quantity_value(amount) >= quantity_value("1Mi")

    return Rule[HostResources](
        at="spec.hardware.resources",
        field=field,
        cel=f"!has(self.{field}) || {quantity('self.' + field)}.compareTo(quantity('1Mi')) >= 0",
        message=f"no pod runs on less than 1Mi of {field}; give the amount with its unit, such as 200Gi, or leave it out",
        holds=holds,
    )


def _parts_and_places(places: str, cores: int = 1) -> Figures[TierSpec]:
    """How many parts of the model there are, and how many places for them."""
    devices = _DEVICES_CEL if cores == 1 else f"{_DEVICES_CEL} * {cores}"
    return Figures(
        template=f"here {places}: %d, parts of the model: %d",
        cel=(devices, _PARTS_CEL),
        of=lambda spec: ((spec.hardware.count or 0) * spec.hardware.hosts * cores, _ranks(spec)),
    )


def _shared_memory_fits(resources: HostResources) -> bool:
    shared, memory = resources.shared_memory, resources.memory
    return shared is None or memory is None or quantity_value(shared) < quantity_value(memory)


def _toleration(field: str, cel: str, message: str, holds: Callable[[Toleration], bool]) -> AnyRule:
    return Rule[Toleration](
        at="spec.hardware.tolerations[]", field=field, cel=cel, message=message, holds=holds
    )


RULES: Final[tuple[AnyRule, ...]] = (
    Rule[HardwareSpec](
        at="spec.hardware",
        field="count",
        cel="self.accelerator == 'cpu' || has(self.count)",
        message="nvidia and neuron need count; set the devices per host",
        holds=_counted,
        reason="FieldValueRequired",
    ),
    Rule[HardwareSpec](
        at="spec.hardware",
        field="count",
        cel="self.accelerator != 'cpu' || !has(self.count)",
        message="there are no devices to count on cpu; remove count",
        holds=_not_counted,
    ),
    Rule[HardwareSpec](
        at="spec.hardware",
        field="resourceName",
        cel=(
            "!has(self.resourceName) || (self.accelerator == 'neuron' && self.resourceName in "
            f"{cel_list((NEURON_DEVICE, NEURON_CORE))}) || "
            f"(self.accelerator == 'nvidia' && !self.resourceName.startsWith('{NEURON_DEVICE}'))"
        ),
        message=(
            "the accelerator has no such resource; neuron offers aws.amazon.com/neuron (chips) and "
            "aws.amazon.com/neuroncore, nvidia those of its device plugin, cpu none"
        ),
        holds=_resource_of_the_accelerator,
    ),
    Rule[TierSpec](
        at="spec",
        field="hardware.count",
        cel=f"self.hardware.accelerator != 'nvidia' || !has(self.hardware.count) || {_RANKS_CEL}",
        message=(
            "tensorParallel * pipelineParallel * dataParallel must be count * hosts: each GPU runs one part of "
            "the model; change the one or the other"
        ),
        holds=_gpus_used_up,
        figures=_parts_and_places("GPUs"),
    ),
    Rule[TierSpec](
        at="spec",
        field="hardware.count",
        cel=(
            f"self.hardware.accelerator != 'neuron' || !has(self.hardware.count) || !{_CHIPS_CEL} || "
            f"{_RANKS_CEL} * {CORES_PER_NEURON_DEVICE}"
        ),
        message=(
            "tensorParallel * pipelineParallel * dataParallel must be count * hosts * 2: each chip has two cores, "
            "and each core runs one part of the model; for chips with more cores set resourceName: "
            "aws.amazon.com/neuroncore and count cores"
        ),
        holds=_chips_used_up,
        figures=_parts_and_places("cores", CORES_PER_NEURON_DEVICE),
    ),
    Rule[TierSpec](
        at="spec",
        field="hardware.count",
        cel=(
            "self.hardware.accelerator != 'neuron' || !has(self.hardware.count) || "
            f"!has(self.hardware.resourceName) || self.hardware.resourceName != '{NEURON_CORE}' || {_RANKS_CEL}"
        ),
        message=(
            "tensorParallel * pipelineParallel * dataParallel must be count * hosts: each core runs one part of "
            "the model; change the one or the other"
        ),
        holds=_cores_used_up,
        figures=_parts_and_places("cores"),
    ),
    Rule[TierSpec](
        at="spec",
        field="engine.tensorParallel",
        cel=(
            "self.hardware.accelerator != 'neuron' || "
            f"self.engine.tensorParallel in {cel_list(NEURON_CORE_GROUPS)}"
        ),
        message=(
            "that many NeuronCores do not form a connected group; use one of "
            + ", ".join(str(size) for size in NEURON_CORE_GROUPS)
        ),
        holds=_connected,
    ),
    Rule[TierSpec](
        at="spec",
        field="engine.tensorParallel",
        cel=(
            f"!has(self.hardware.resourceName) || !self.hardware.resourceName.startsWith('{_MIG}') || "
            "(self.engine.tensorParallel == 1 && self.engine.pipelineParallel == 1)"
        ),
        message="MIG slices cannot work on one model together; use tensorParallel and pipelineParallel 1",
        holds=_whole_slices,
    ),
    Rule[NodePool](
        at="spec.hardware.nodePool",
        field="matchLabels",
        cel=f"!has(self.matchLabels) || self.matchLabels.all(key, {key_cel('key')})",
        message="a key is no label key; write prefix/name, such as karpenter.sh/nodepool",
        holds=_label_keys,
    ),
    Rule[LabelSelectorRequirement](
        at="spec.hardware.nodePool.matchExpressions[]",
        field="key",
        cel=key_cel("self.key"),
        message="this is no label key; write prefix/name, such as karpenter.sh/nodepool",
        holds=lambda requirement: is_key(requirement.key),
    ),
    Rule[LabelSelectorRequirement](
        at="spec.hardware.nodePool.matchExpressions[]",
        field="values",
        cel=(
            "self.operator in ['In', 'NotIn'] ? has(self.values) && self.values.size() > 0 : "
            "self.operator in ['Exists', 'DoesNotExist'] ? !has(self.values) || self.values.size() == 0 : "
            f"has(self.values) && self.values.size() == 1 && self.values[0].matches(r'{_INTEGER}')"
        ),
        message="In and NotIn need values, Exists and DoesNotExist take none, Gt and Lt take one whole number; give values that fit the operator",
        holds=_values_fit_operator,
    ),
    _toleration(
        "value",
        "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
        "operator Exists compares no value; remove value or use Equal",
        lambda toleration: toleration.operator != "Exists" or not toleration.value,
    ),
    _toleration(
        "operator",
        "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
        "a toleration without key needs operator: Exists, and then tolerates every taint; name the key or set it",
        lambda toleration: bool(toleration.key) or toleration.operator == "Exists",
    ),
    _toleration(
        "key",
        f"!has(self.key) || self.key == '' || {key_cel('self.key')}",
        "this is no taint key; write prefix/name, such as nvidia.com/gpu",
        lambda toleration: not toleration.key or is_key(toleration.key),
    ),
    _toleration(
        "tolerationSeconds",
        "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
        "tolerationSeconds needs effect: NoExecute; other taints do not evict",
        lambda toleration: toleration.toleration_seconds is None or toleration.effect == "NoExecute",
    ),
    Rule[HostResources](
        at="spec.hardware.resources",
        field="cpu",
        cel=f"!has(self.cpu) || {quantity('self.cpu')}.isGreaterThan(quantity('0'))",
        message="no pod runs on zero cpu; set an amount or leave it out",
        holds=_no_cpu_is_none,
    ),
    _at_least_a_mebibyte("memory", "memory"),
    _at_least_a_mebibyte("sharedMemory", "shared_memory"),
    _at_least_a_mebibyte("ephemeralStorage", "ephemeral_storage"),
    Rule[HostResources](
        at="spec.hardware.resources",
        field="sharedMemory",
        cel=(
            "!has(self.sharedMemory) || !has(self.memory) || "
            f"{quantity('self.sharedMemory')}.isLessThan({quantity('self.memory')})"
        ),
        message="sharedMemory is a part of memory and must be smaller; raise memory or lower sharedMemory",
        holds=_shared_memory_fits,
    ),
)
