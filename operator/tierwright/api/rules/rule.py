"""Defines what a rule of the API is: one value that makes both the CEL of the CRD and the verdict of the models.

A rule stands at a node of the schema, as in the CRD: it is asked only when the node is there, once for each item of a
list. The Python side mirrors the CEL side; a property test compares them on a real API server.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from tierwright.api.base import ApiModel
from tierwright.api.tier import TierSpec

Node = TypeVar("Node", bound=ApiModel)

ErrorReason = Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired"]


@dataclass(frozen=True, kw_only=True)
class Figures(Generic[Node]):
    """The tier's own numbers, which stand in brackets behind a rule's message."""

    template: str
    """The words, with ``%d`` for each number. The API server knows no bound for texts put together in another way."""
    cel: tuple[str, ...]
    """CEL of each number; asked only where the rule is broken."""
    of: Callable[[Node], tuple[int, ...]]
    """The same numbers for the models."""


@dataclass(frozen=True, kw_only=True)
class Rule(Generic[Node]):
    """What must hold of one node of the spec."""

    at: str
    """Where the rule stands, in wire names from the spec on: ``spec.scaling``, ``spec.engine.env[]``."""
    field: str
    """The field that the error is reported at, below ``at``: ``maxReplicas``, ``kvCache.dtype``."""
    cel: str
    """The rule for the API server; ``self`` is the node."""
    message: str
    """What is wrong and what to do; the same words on both sides."""
    holds: Callable[[Node], bool]
    """The rule for the models, true when the node is fine."""
    reason: ErrorReason = "FieldValueInvalid"
    figures: Figures[Node] | None = None

    def words(self, node: Node) -> str:
        """What is said of a node that breaks the rule: the message, and the figures where there are some."""
        return (
            self.message
            if self.figures is None
            else f"{self.message} ({self.figures.template % self.figures.of(node)})"
        )


@dataclass(frozen=True, kw_only=True)
class TransitionRule(Generic[Node]):
    """What must hold of one node of the spec when it replaces an older one; not asked at creation."""

    at: str
    field: str
    cel: str
    """The rule for the API server; ``self`` is the new node, ``oldSelf`` the one before."""
    message: str
    holds: Callable[[Node, Node], bool]
    """The rule for the models, given the old node and the new one."""
    reason: ErrorReason = "FieldValueInvalid"


AnyRule = Rule[Any] | TransitionRule[Any]


@dataclass(frozen=True)
class Violation:
    """A rule that does not hold."""

    path: str
    """Field path in the user's spelling, such as ``spec.scaling.maxReplicas``."""
    message: str


def violations(rules: Iterable[AnyRule], spec: TierSpec, old: TierSpec | None = None) -> list[Violation]:
    """All rules that the spec breaks, in the order of the rules.

    ``old`` is the spec that this one replaces; without it transition rules are not asked, as at creation. Parts of
    the spec that were never set (``model_construct``) are treated as absent.
    """
    found = []
    for rule in rules:
        if isinstance(rule, Rule):
            broken = [(path, rule.words(node)) for path, node in nodes(spec, rule.at) if not rule.holds(node)]
        else:
            before = dict(nodes(old, rule.at)) if old is not None else {}
            broken = [
                (path, rule.message)
                for path, node in nodes(spec, rule.at)
                if path in before and not rule.holds(before[path], node)
            ]
        found += [Violation(f"{path}.{rule.field}", words) for path, words in broken]
    return found


def nodes(spec: TierSpec, at: str) -> Iterator[tuple[str, Any]]:
    """The nodes that a location names, each with its own path; list items carry their index."""
    steps = at.split(".")
    found: list[tuple[str, Any]] = [(steps[0], spec)]
    for step in steps[1:]:
        name, in_list = step.removesuffix("[]"), step.endswith("[]")
        members = [(f"{path}.{name}", _member(node, name)) for path, node in found]
        found = [
            item
            for path, value in members
            if value is not None
            for item in (
                [(f"{path}[{index}]", item) for index, item in enumerate(value)]
                if in_list
                else [(path, value)]
            )
        ]
    yield from found


def _member(node: ApiModel, wire_name: str) -> Any:
    for attribute, field in type(node).model_fields.items():
        if field.alias == wire_name:
            return getattr(node, attribute, None)
    raise LookupError(f"{type(node).__name__} has no field {wire_name}")


def quantity(expression: str) -> str:
    """CEL that reads an int-or-string field as a Kubernetes quantity."""
    return f"quantity(string({expression}))"


def cel_list(values: Iterable[str | int]) -> str:
    """A CEL list literal."""
    return "[" + ", ".join(str(value) if isinstance(value, int) else f"'{value}'" for value in values) + "]"
