"""Tells the operations of a compiled program by what they compute, and how long each took in a trace. Pure, over texts and times."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tierwright_worker.models.config import ModelConfig

_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%(?P<name>[\w.\-]+) = (?P<result>\S+)[^=]*? (?P<opcode>[\w\-]+)\(")
_TARGET = re.compile(r'custom_call_target="(\w+)"')
_OPERANDS = re.compile(r"operand_layout_constraints=\{(.*?)\}, api_version")
_DIMENSIONS = re.compile(r"\w+\[([\d,]*)\]")
# These hold others, whose times are counted themselves.
_CONTAINERS = frozenset({"while", "call", "conditional"})
REST = "all else: norms, rotary, activation, argmax"


@dataclass(frozen=True, slots=True)
class Kind:
    """What an instruction computes: its name on the page, bytes that it must read, floating-point operations."""

    name: str
    bytes: int
    operations: int


@dataclass(frozen=True, slots=True)
class Operation:
    """All calls of one kind in one run of a program: their number, seconds, bytes that they must read, operations."""

    name: str
    calls: int
    seconds: float
    bytes: int
    operations: int


def kinds_of(
    program: str, config: ModelConfig, *, rows: int, slots: int, position: int, item: int, cache_item: int
) -> dict[str, Kind]:
    """Instruction name -> what it computes, out of a compiled program's HLO text.

    `rows` of each of `slots` sequences stand at `position`. `item`: bytes of a weight; `cache_item`: of a cached number.
    """
    found = {}
    for line in program.splitlines():
        match = _INSTRUCTION.match(line)
        if match is None or match["opcode"] in _CONTAINERS:
            continue
        target = _TARGET.search(line)
        kind = Kind(REST, 0, 0)
        if target and target[1].startswith("tierwright_linear"):
            kind = _product(line, match["result"], config, rows * slots, item)
        elif target and target[1].startswith("tierwright_attention"):
            kind = _attention(config, rows, slots, position, cache_item)
        found[match["name"]] = kind
    return found


def operations_of(
    kinds: Mapping[str, Kind], times: Mapping[str, Sequence[float]], runs: int
) -> tuple[Operation, ...]:
    """The kinds of one run, in the order in which they first stand in the program; `times`: name -> seconds of each call.

    An instruction counts with its median, so that a call that was disturbed does not.
    """
    calls: dict[str, int] = {}
    sums: dict[str, list[float]] = {}
    for name, kind in kinds.items():
        seconds = times.get(name)
        if not seconds:
            continue
        each = round(len(seconds) / runs)
        calls[kind.name] = calls.get(kind.name, 0) + each
        total = sums.setdefault(kind.name, [0.0, 0, 0])
        for at, amount in enumerate((median(seconds), kind.bytes, kind.operations)):
            total[at] += amount * each
    ordered = sorted(sums, key=lambda name: name == REST)
    return tuple(
        Operation(name, calls[name], sums[name][0], int(sums[name][1]), int(sums[name][2]))
        for name in ordered
    )


def _product(line: str, result: str, config: ModelConfig, rows: int, item: int) -> Kind:
    operands = _OPERANDS.search(line)
    inputs = _dimensions(operands[1])[-1] if operands else 0
    outputs = _dimensions(result)[-1]
    names = {
        (config.hidden_size, config.q_size + 2 * config.kv_size): "queries, keys and values",
        (config.q_size, config.hidden_size): "attention's output",
        (config.hidden_size, 2 * config.intermediate_size): "gate and up",
        (config.intermediate_size, config.hidden_size): "down",
        (config.hidden_size, config.vocab_size): "vocabulary",
    }
    name = names.get((inputs, outputs), f"product of {inputs} by {outputs}")
    return Kind(name, inputs * outputs * item, 2 * rows * inputs * outputs)


def _attention(config: ModelConfig, rows: int, slots: int, position: int, item: int) -> Kind:
    """Each row reads and mixes what stands up to itself."""
    seen = sum(position + row + 1 for row in range(rows))
    read = 2 * slots * config.kv_heads * config.head_dim * (position + rows) * item
    return Kind("attention", read, 4 * slots * config.heads * config.head_dim * seen)


def _dimensions(shape: str) -> list[int]:
    """The numbers of the first shape in a text."""
    match = _DIMENSIONS.search(shape)
    return [int(size) for size in match[1].split(",") if size] if match else [0]


def gathered(events: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    """Name -> the seconds of its events."""
    times: dict[str, list[float]] = {}
    for name, seconds in events:
        times.setdefault(name, []).append(seconds)
    return times
