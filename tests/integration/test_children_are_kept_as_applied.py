"""A real API server accepts every kind of child and keeps it as it was applied: a settled tier has nothing to correct."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.kubernetes import Kubernetes
from tests.support.tier_bundles import bundle_of, tier_object
from tierwright.api.parse import parse_tier
from tierwright.control.containment import differences

pytestmark = pytest.mark.integration

TIERS = sorted((Path(__file__).parents[1] / "golden" / "tiers").glob("*.yaml"))
ODDLY_WRITTEN = tier_object(
    "cpu",
    engine={"env": [{"name": "EMPTY", "value": ""}]},
    hardware={
        "tolerations": [{"key": "", "operator": "Exists", "value": ""}],
        "nodePool": {"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist", "values": []}]},
        "resources": {"cpu": "500.1m", "memory": "1024Mi", "sharedMemory": "1000M"},
    },
    cache={"compile": {"size": "1024Mi", "sharing": "Shared", "accessMode": "ReadWriteMany"}},
)
OBJECTS: dict[str, dict[str, Any]] = {
    **{path.stem: yaml.safe_load(path.read_text()) for path in TIERS},
    "oddly-written": ODDLY_WRITTEN,
}


@pytest.mark.parametrize("name", OBJECTS)
def test_the_api_server_keeps_every_child_as_it_was_applied(k8s: Kubernetes, name: str) -> None:
    obj = OBJECTS[name]
    parsed = parse_tier(
        {**obj, "metadata": {"name": obj["metadata"]["name"], "namespace": k8s.namespace}}, strict=True
    )
    assert parsed.tier is not None, parsed.errors
    children = [child.manifest for child in bundle_of(parsed.tier).children]
    for child in children:
        live = k8s.apply(child, manager="tierwright")
        assert differences(child, live) == (), child["kind"]
        again = k8s.apply(child, manager="tierwright")
        assert again.get("spec") == live.get("spec"), child["kind"]
        assert again["metadata"].get("generation") == live["metadata"].get("generation"), child["kind"]
