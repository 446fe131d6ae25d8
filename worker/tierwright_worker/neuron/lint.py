"""Finds what AWS Neuron's compiler or runtime refuses in a lowered program, without either being there.

The list is AWS's own for JAX on Neuron (SDK 2.32, "known limitations"). It says what must not be in a program; that a
program without findings compiles and runs there is not shown by it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tierwright_worker.engine.programs import Program, lower

# Operation -> why it must not appear.
_BANNED = {
    "stablehlo.while": "dynamic loops are not supported",
    "stablehlo.if": "conditionals (lax.cond) are not supported",
    "stablehlo.case": "conditionals (lax.switch) are not supported",
    "stablehlo.custom_call": "custom calls and host callbacks are not supported",
    "stablehlo.scatter": "a scatter out of range faults; write with dynamic_update_slice",
    "stablehlo.rng": "the generator is not supported; draw on the host",
    "stablehlo.fft": "complex numbers are not supported",
    "chlo.top_k": "sort is limited; take the largest on the host",
}
_DYNAMIC = re.compile(
    r"stablehlo\.(dynamic_(reshape|broadcast_in_dim|gather|iota|pad|conv)|real_dynamic_slice|set_dimension_size)"
)
_SORT_ORDERS = frozenset({"LE", "GE", "LT", "GT"})
_UNSUPPORTED_TYPE = re.compile(r"complex<|f64\b|\?x|x\?")
_INTEGER = re.compile(r"tensor<(?:\d+x)*[su]?i\d+>|tensor<(?:\d+x)*ui\d+>")
# Through these an index is still the index that was clamped.
_CARRIERS = frozenset(
    f"stablehlo.{name}"
    for name in ("reshape", "broadcast_in_dim", "concatenate", "convert", "transpose", "slice")
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One operation that a Neuron device would refuse, in which program, and why."""

    program: str
    operation: str
    why: str

    def __str__(self) -> str:
        return f"{self.program}: {self.operation}: {self.why}"


def lint(programs: Iterable[Program]) -> list[Finding]:
    """All findings; empty when there is nothing to refuse. Each program is traced, none is compiled."""
    return [finding for program in programs for finding in lint_program(program)]


def lint_program(program: Program) -> list[Finding]:
    """The findings of one program, each kind of operation once."""
    module: Any = lower(program).compiler_ir("stablehlo")
    found = {
        (str(operation.name), why): None
        for operation in _walk(module.operation)
        for why in _complaints(operation)
    }
    return [Finding(program.name, name, why) for name, why in found]


def _walk(operation: Any) -> Iterator[Any]:
    yield operation
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _walk(inner.operation)


def _complaints(operation: Any) -> Iterator[str]:
    name = str(operation.name)
    if name in _BANNED:
        yield _BANNED[name]
    if _DYNAMIC.fullmatch(name):
        yield "dynamic shapes are not supported"
    types = [str(value.type) for value in (*operation.operands, *operation.results)]
    if any(_UNSUPPORTED_TYPE.search(kind) for kind in types):
        yield "complex numbers, f64 and unknown dimensions are not supported"
    if any("i64" in kind for kind in types) and name != "stablehlo.constant":
        yield "64-bit integers are cut to 32 bits"
    if name == "stablehlo.reduce" and len(operation.operands) > 2:
        yield "a reduce over several operands (argmax) is not supported"
    if name == "stablehlo.dot_general" and any(_INTEGER.fullmatch(kind) for kind in types[:2]):
        yield "products of integers are not supported"
    if name == "stablehlo.gather" and not _clamped(operation.operands[1]):
        yield "an index that is not clamped faults when it is out of range"
    if name == "stablehlo.sort" and not _sorts_by_order(operation):
        yield "sort compares by LE, GE, LT or GT only"
    if name == "stablehlo.rng_bit_generator" and "THREE_FRY" in str(operation.attributes["rng_algorithm"]):
        yield "threefry is not fully supported; use rbg"


def _clamped(index: Any) -> bool:
    """Whether an index comes from a clamp, or from a constant, perhaps through operations that keep its values."""
    owner = getattr(index.owner, "operation", index.owner)
    name = str(getattr(owner, "name", "argument"))
    if name in ("stablehlo.clamp", "stablehlo.constant"):
        return True
    if name in _CARRIERS:
        return all(_clamped(operand) for operand in owner.operands)
    return False


def _sorts_by_order(operation: Any) -> bool:
    compares = [inner for inner in _walk(operation) if str(inner.name) == "stablehlo.compare"]
    directions = [str(compare.attributes["comparison_direction"]) for compare in compares]
    return bool(directions) and all(
        any(f" {order}>" in direction for order in _SORT_ORDERS) for direction in directions
    )
