"""Defines what a case is: a tier made from a base by changes, and what must be said about it."""

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

Spec = dict[str, Any]

SAMPLES: Final = Path(__file__).resolve().parents[3] / "docs" / "samples"
REMOVE: Final = object()
"""As the value of a change: the field is taken away."""

BASES: Final[dict[str, Spec]] = {
    "gpu": {
        "model": {"name": "m", "source": "hf://owner/repo@main"},
        "speed": "fast",
        "engine": {"type": "vllm"},
        "hardware": {"accelerator": "nvidia", "count": 1},
    },
    "neuron": {
        "model": {"name": "m", "source": "s3://bucket/m"},
        "speed": "fast",
        "engine": {"type": "jax", "tensorParallel": 2},
        "hardware": {"accelerator": "neuron", "count": 1},
    },
    "cpu": {
        "model": {"name": "m", "source": "pvc://models/m"},
        "speed": "standard",
        "engine": {"type": "vllm"},
        "hardware": {"accelerator": "cpu"},
    },
}


@dataclass(frozen=True)
class Case:
    """One tier, made from a base by changes of the form ``{"scaling.mode": "Auto"}``."""

    path: str
    """Where the one error is reported."""
    words: str
    """How its message begins."""
    changes: dict[str, Any]
    base: str = "gpu"
    before: dict[str, Any] | None = None
    """For a rule on changes: the changes that make the stored tier."""

    def __str__(self) -> str:
        return f"{self.path}: {self.words}"


@dataclass(frozen=True)
class Fine:
    """A tier that must pass although it comes close to a rule."""

    changes: dict[str, Any]
    base: str = "gpu"
    before: dict[str, Any] | None = field(default=None)

    def __str__(self) -> str:
        return f"{self.base} {self.before or ''} {self.changes}"


def spec(base: str, changes: dict[str, Any]) -> Spec:
    """The spec of a base with changes at dotted paths; ``tolerations[0]`` is not needed, lists are set whole."""
    made = copy.deepcopy(BASES[base])
    for path, value in changes.items():
        *parents, last = path.split(".")
        node = made
        for parent in parents:
            node = node.setdefault(parent, {})
        if value is REMOVE:
            node.pop(last, None)
        else:
            node[last] = value
    return made


def tier(content: Spec, name: str = "t") -> dict[str, Any]:
    """The whole object around a spec."""
    return {
        "apiVersion": "tierwright.dev/v1alpha1",
        "kind": "InferenceTier",
        "metadata": {"name": name},
        "spec": content,
    }


def sample_files() -> list[Path]:
    """The sample tiers of the documentation."""
    return sorted(SAMPLES.glob("*.yaml"))


def load(path: Path) -> dict[str, Any]:
    """One sample."""
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


AUTO: Final = {
    "scaling.mode": "Auto",
    "scaling.maxReplicas": 4,
    "scaling.objectives": {"timeToFirstToken": "500ms"},
}
SHARED: Final = {"size": "10Gi", "accessMode": "ReadWriteMany", "storageClassName": "fsx"}
DRAFT: Final = {"source": "hf://owner/draft@main"}
FALLBACK: Final = {"to": "standard", "when": ["RateLimited"]}


def with_args(*arguments: str) -> dict[str, Any]:
    return {"engine.extraArgs": list(arguments)}
