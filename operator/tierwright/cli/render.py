"""Decides what ``tierwright render`` prints: the children of each tier in the files, or all that is wrong with all of them."""

import sys
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tierwright.api.engine import EngineType
from tierwright.api.parse import parse_tier
from tierwright.api.tier import KIND, InferenceTier
from tierwright.api.warnings import not_used_yet
from tierwright.cli import yaml_text
from tierwright.cli.documents import Document, Input, Problem, documents, emit, is_something_else, read
from tierwright.desired.bundle import (
    Bundle,
    BundleContext,
    Refusal,
    desired_bundle,
    refusals,
    refusals_of_parts,
)
from tierwright.engines.engine import WORKER_REPOSITORY


@dataclass(frozen=True)
class RenderResult:
    """What comes of some files; there are no children when there are errors."""

    children: tuple[dict[str, Any], ...]
    """All children of all tiers, each tier's in apply order."""
    errors: tuple[str, ...]
    """Each with file, document and field path, and what to do."""
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Rendered:
    """What comes of one document."""

    bundle: Bundle | None
    problems: list[Problem]
    warnings: tuple[str, ...] = ()


def run(names: Iterable[str], context: BundleContext, namespace: str | None = None) -> int:
    """Print the children to stdout and everything else to stderr; 0 when all tiers could be rendered, else 1.

    Args:
        names: files to read, ``-`` for stdin.
        context: what the operator knows beside the tiers.
        namespace: of the tiers that name none.
    """
    inputs, unreadable = read(names)
    result = render_documents(inputs, context, namespace)
    for warning in result.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for error in (*unreadable, *result.errors):
        print(f"error: {error}", file=sys.stderr)
    if unreadable or result.errors:
        return 1
    return emit(yaml_text.dump(result.children))


def render_documents(
    inputs: Iterable[Input], context: BundleContext, namespace: str | None = None
) -> RenderResult:
    """The children of every InferenceTier in the files; ``namespace`` is that of the tiers that name none."""
    children: list[dict[str, Any]] = []
    errors: list[str] = []
    warnings: list[str] = []
    seen: dict[Hashable, str] = {}
    for source in inputs:
        found = False
        for item in documents(source):
            if isinstance(item, Problem):
                errors.append(str(item))
            elif is_something_else(item.content):
                kind = item.content["kind"]
                warnings.append(f"{item.where}: {kind} is no {KIND} and was left out")
                continue
            else:
                rendered = _render(_in_namespace(item, namespace), namespace, seen, context)
                errors += map(str, rendered.problems)
                warnings += [f"{item.where}: {warning}" for warning in rendered.warnings]
                if rendered.bundle is not None:
                    children += [child.manifest for child in rendered.bundle.children]
            found = True
        if not found:
            errors.append(
                f"{source.name}: holds no {KIND}; write one with apiVersion, kind, metadata and spec"
            )
    return RenderResult(() if errors else tuple(children), tuple(errors), tuple(warnings))


def _in_namespace(document: Document, namespace: str | None) -> Document:
    """The document with the namespace put in, where it names none."""
    content = document.content
    metadata = content.get("metadata") if isinstance(content, dict) else None
    if namespace is None or not isinstance(metadata, dict) or metadata.get("namespace") is not None:
        return document
    return Document(document.where, {**content, "metadata": {**metadata, "namespace": namespace}})


def _render(
    document: Document, namespace: str | None, seen: dict[Hashable, str], context: BundleContext
) -> _Rendered:
    where = document.where
    parsed = parse_tier(document.content, strict=True)
    problems = [Problem(where, str(error).removeprefix(": ")) for error in parsed.errors]
    if parsed.tier is None:
        told = {error.path for error in parsed.errors}
        refused = refusals_of_parts(parsed.readable) if parsed.readable is not None else ()
        return _Rendered(None, problems + _refused(where, [one for one in refused if one.path not in told]))
    tier = parsed.tier
    if namespace not in (None, tier.metadata.namespace):
        words = f"is {tier.metadata.namespace}, but --namespace says {namespace}; remove one of them"
        problems.append(Problem(where, f"metadata.namespace: {words}"))
    problems += _twins(tier, where, seen)
    bundle = desired_bundle(tier, context)
    if isinstance(bundle, Bundle):
        warnings = (*bundle.warnings, *_own_image(tier, bundle, context), *not_used_yet(tier.spec))
        return _Rendered(bundle, problems, warnings)
    return _Rendered(None, problems + _refused(where, refusals(tier)))


def _refused(where: str, found: Sequence[Refusal]) -> list[Problem]:
    return [Problem(where, f"{one.path}: {one.message}") for one in found]


def _own_image(tier: InferenceTier, bundle: Bundle, context: BundleContext) -> Iterator[str]:
    """The worker's images are published nowhere, so the name that stands in for them leads no node to one."""
    engine = tier.spec.engine
    if (
        engine.type is EngineType.JAX
        and engine.image is None
        and context.worker_repository == WORKER_REPOSITORY
    ):
        yield (
            f"spec.engine.image: {bundle.engine_image} is found only where it was loaded onto the nodes; build the "
            "worker's image, push it, and name it here or by --worker-repository, the operator's as well"
        )


def _twins(tier: InferenceTier, where: str, seen: dict[Hashable, str]) -> Iterator[Problem]:
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
            yield Problem(where, words.format(first=first))
