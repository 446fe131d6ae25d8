"""Makes tiers for tests out of a small valid one and the fields that a test is about."""

from collections.abc import Mapping
from typing import Any

from tierwright.api.tier import InferenceTier
from tierwright.desired.bundle import Bundle, BundleContext, PinnedEngine, Refusal, desired_bundle

UID = "0a1b2c3d-0000-4000-8000-000000000001"
_HARDWARE: Mapping[str, dict[str, Any]] = {
    "nvidia": {"accelerator": "nvidia", "count": 1},
    "neuron": {"accelerator": "neuron", "count": 1},
    "cpu": {"accelerator": "cpu"},
}
_ENGINES: Mapping[str, dict[str, Any]] = {
    "nvidia": {"type": "vllm"},
    "neuron": {"type": "jax", "image": "example.com/worker:1.0.0", "tensorParallel": 2},
    "cpu": {"type": "vllm"},
}


def tier_object(accelerator: str = "nvidia", name: str = "llama-fast", **spec: Any) -> dict[str, Any]:
    """A valid tier as a user writes it; ``engine`` and ``hardware`` are added to, other fields are set."""
    engine = {**_ENGINES[accelerator], **spec.pop("engine", {})}
    hardware = {**_HARDWARE[accelerator], **spec.pop("hardware", {})}
    return {
        "apiVersion": "tierwright.dev/v1alpha1",
        "kind": "InferenceTier",
        "metadata": {"name": name, "namespace": "serving", "uid": UID},
        "spec": {
            "model": {"name": "meta/llama-3.1-8b", "source": "hf://meta-llama/Llama-3.1-8B-Instruct@main"},
            "speed": "fast",
            "engine": engine,
            "hardware": hardware,
            **spec,
        },
    }


def tier(accelerator: str = "nvidia", name: str = "llama-fast", **spec: Any) -> InferenceTier:
    """``tier_object`` as the operator reads it."""
    return InferenceTier.model_validate(tier_object(accelerator, name, **spec))


def bundle_of(wanted: InferenceTier, pinned: PinnedEngine | None = None) -> Bundle:
    """The bundle of a tier that can be built."""
    bundle = desired_bundle(wanted, BundleContext(pinned))
    assert isinstance(bundle, Bundle), bundle
    return bundle


def refusal_of(wanted: InferenceTier) -> Refusal:
    """The refusal of a tier that cannot be built."""
    refusal = desired_bundle(wanted, BundleContext())
    assert isinstance(refusal, Refusal), refusal
    return refusal


def manifest(bundle: Bundle, kind: str, suffix: str = "") -> dict[str, Any]:
    """The child of a kind whose name ends with the suffix; there must be one only."""
    found = [
        child.manifest
        for child in bundle.children
        if child.manifest["kind"] == kind and child.manifest["metadata"]["name"].endswith(suffix)
    ]
    assert len(found) == 1, [item["metadata"]["name"] for item in found]
    return found[0]


def pod_template(bundle: Bundle) -> dict[str, Any]:
    """The pod template of the bundle's Deployment."""
    template: dict[str, Any] = manifest(bundle, "Deployment")["spec"]["template"]
    return template


def pod_spec(wanted: InferenceTier) -> dict[str, Any]:
    """The pod spec of a tier that can be built."""
    spec: dict[str, Any] = pod_template(bundle_of(wanted))["spec"]
    return spec


def engine_container(wanted: InferenceTier) -> dict[str, Any]:
    """The engine's container of a tier that can be built."""
    container: dict[str, Any] = pod_spec(wanted)["containers"][0]
    return container


def env_of(container: Mapping[str, Any]) -> dict[str, Any]:
    """Name → value, or the source of the value, of a container's variables."""
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in container["env"]}


def flag(args: list[str], name: str) -> str | None:
    """The value that follows a flag; None when the flag is absent."""
    return args[args.index(name) + 1] if name in args else None
