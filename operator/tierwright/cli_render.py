"""Decides what ``tierwright render`` prints: the children of each tier in the files, or all that is wrong with all of them."""

import io
import os
import re
import sys
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tierwright import cli_yaml
from tierwright.api.parse import parse_tier
from tierwright.api.tier import GROUP, KIND, InferenceTier
from tierwright.desired.bundle import Bundle, BundleContext, desired_bundle, refusals

STDIN: Final = "-"
_DOCUMENT_START: Final = re.compile(r"^(?=---(?:\s|$))", re.MULTILINE)


@dataclass(frozen=True)
class Input:
    """The text of one file."""

    name: str
    text: str


@dataclass(frozen=True)
class RenderResult:
    """What comes of some files; there are no children when there are errors."""

    children: tuple[dict[str, Any], ...]
    """All children of all tiers, each tier's in apply order."""
    errors: tuple[str, ...]
    """Each with file, document and field path, and what to do."""
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Document:
    where: str
    content: Any


@dataclass(frozen=True)
class _Problem:
    """Something to say about one document."""

    where: str
    words: str

    def __str__(self) -> str:
        return f"{self.where}: {self.words}"


def run(names: Iterable[str], context: BundleContext) -> int:
    """Print the children to stdout and everything else to stderr; 0 when all tiers could be rendered, else 1.

    Args:
        names: files to read, ``-`` for stdin.
        context: what the operator knows beside the tiers.
    """
    inputs, unreadable = _read(names)
    result = render_documents(inputs, context)
    for warning in result.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for error in (*unreadable, *result.errors):
        print(f"error: {error}", file=sys.stderr)
    if unreadable or result.errors:
        return 1
    return _print(cli_yaml.dump(result.children))


def _print(text: str) -> int:
    """Writes to stdout; 1 when whoever reads it went away or the disk is full."""
    try:
        # YAML is UTF-8, whatever the terminal's own encoding.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        print(f"error: the output cannot be written: {error.strerror}", file=sys.stderr)
        # The interpreter flushes once more when it ends, and would say the same in its own way.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def render_documents(inputs: Iterable[Input], context: BundleContext) -> RenderResult:
    """The children of every InferenceTier in the files."""
    children: list[dict[str, Any]] = []
    errors: list[str] = []
    warnings: list[str] = []
    seen: dict[Hashable, str] = {}
    for source in inputs:
        found = False
        for item in _documents(source):
            if isinstance(item, _Problem):
                errors.append(str(item))
            elif _is_something_else(item.content):
                kind = item.content["kind"]
                warnings.append(f"{item.where}: {kind} is no {KIND} and was left out")
                continue
            else:
                bundle, problems = _render(item, seen, context)
                errors += map(str, problems)
                if bundle is not None:
                    children += [child.manifest for child in bundle.children]
                    warnings += [f"{item.where}: {warning}" for warning in bundle.warnings]
            found = True
        if not found:
            errors.append(
                f"{source.name}: holds no {KIND}; write one with apiVersion, kind, metadata and spec"
            )
    return RenderResult(() if errors else tuple(children), tuple(errors), tuple(warnings))


def _render(
    document: _Document, seen: dict[Hashable, str], context: BundleContext
) -> tuple[Bundle | None, list[_Problem]]:
    parsed = parse_tier(document.content, strict=True)
    if parsed.tier is None:
        return None, [_Problem(document.where, str(error).removeprefix(": ")) for error in parsed.errors]
    twins = list(_twins(parsed.tier, document.where, seen))
    bundle = desired_bundle(parsed.tier, context)
    if isinstance(bundle, Bundle):
        return bundle, twins
    refused = [_Problem(document.where, f"{one.path}: {one.message}") for one in refusals(parsed.tier)]
    return None, [*twins, *refused]


def _twins(tier: InferenceTier, where: str, seen: dict[Hashable, str]) -> Iterator[_Problem]:
    """What two tiers may not share; the cluster would let the later one wait in conflict."""
    namespace, name = tier.metadata.namespace, tier.metadata.name
    model, speed = tier.spec.model.name, tier.spec.speed
    for identity, words in (
        (
            ("name", namespace, name),
            f"metadata.name: {namespace}/{name} stands in {{first}} already; rename one",
        ),
        (
            ("speed", namespace, model, speed),
            f"spec.speed: {{first}} serves {model} at speed {speed} already; use another speed",
        ),
    ):
        first = seen.setdefault(identity, where)
        if first != where:
            yield _Problem(where, words.format(first=first))


def _documents(source: Input) -> Iterator[_Document | _Problem]:
    """Each document by itself, so that one that cannot be read hides none of the others."""
    line = 0
    number = 0
    for text in _DOCUMENT_START.split(source.text):
        try:
            content = cli_yaml.load(text, line)
        except cli_yaml.UnreadableError as error:
            number += 1
            yield _Problem(f"{source.name}, document {number}", f"cannot be read as YAML: {error}")
        else:
            if content is not None:
                number += 1
                yield from _items(f"{source.name}, document {number}", content)
        line += text.count("\n")


def _items(where: str, content: Any) -> Iterator[_Document]:
    """The document, or the items of a list as ``kubectl get -o yaml`` prints it."""
    if isinstance(content, dict) and content.get("kind") == "List" and isinstance(content.get("items"), list):
        for index, item in enumerate(content["items"]):
            yield _Document(f"{where}, items[{index}]", item)
    else:
        yield _Document(where, content)


def _is_something_else(content: Any) -> bool:
    if not isinstance(content, dict) or not content.get("kind"):
        return False
    return content["kind"] != KIND and not str(content.get("apiVersion")).startswith(f"{GROUP}/")


def _read(names: Iterable[str]) -> tuple[list[Input], list[str]]:
    inputs: list[Input] = []
    errors: list[str] = []
    for name in names:
        try:
            text = sys.stdin.read() if name == STDIN else Path(name).read_text(encoding="utf-8")
        except OSError as error:
            errors.append(f"{name}: cannot be read: {error.strerror}")
        except UnicodeDecodeError:
            errors.append(f"{name}: is no UTF-8 text")
        else:
            inputs.append(Input("stdin" if name == STDIN else name, text))
    return inputs, errors
