"""A new release of the operator rolls nobody's pods: what each release rendered is kept and compared byte by byte.

``tests/golden/tiers`` holds tiers, ``tests/golden/vX.Y.Z`` what release X.Y.Z made of them. A difference means that
every user's pods would be replaced by an upgrade; find another way, or say so in the changelog and write a new folder:
``UPDATE_GOLDEN=1 python -m pytest tests/unit/test_pods_stay_the_same_across_releases.py``.
"""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.tier_bundles import bundle_of, manifest
from tierwright import __version__
from tierwright.api.parse import parse_tier
from tierwright.api.tier import InferenceTier
from tierwright.cli.yaml_text import dump
from tierwright.desired.bundle import pinned_engine

GOLDEN = Path(__file__).parents[1] / "golden"
TIERS = sorted((GOLDEN / "tiers").glob("*.yaml"))
RELEASES = sorted(folder for folder in GOLDEN.iterdir() if folder.name.startswith("v"))
CURRENT = GOLDEN / f"v{__version__}"


def read_tier(path: Path) -> InferenceTier:
    parsed = parse_tier(yaml.safe_load(path.read_text()), strict=True)
    assert parsed.tier is not None, parsed.errors
    return parsed.tier


def rendered(path: Path) -> str:
    bundle = bundle_of(read_tier(path))
    return dump(child.manifest for child in bundle.children)


def workload_in(path: Path) -> dict[str, Any]:
    """The Deployment among the children that a release rendered."""
    (workload,) = [item for item in yaml.safe_load_all(path.read_text()) if item["kind"] == "Deployment"]
    return dict(workload)


@pytest.mark.parametrize("tier_file", TIERS, ids=lambda path: path.stem)
def test_this_release_renders_what_it_rendered_when_it_was_written(tier_file: Path) -> None:
    expected = CURRENT / tier_file.name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        expected.parent.mkdir(exist_ok=True)
        expected.write_text(rendered(tier_file))
    assert rendered(tier_file) == expected.read_text()


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_pods_of_every_former_release_stay_as_they_are(release: Path) -> None:
    for expected in sorted(release.glob("*.yaml")):
        live = workload_in(expected)
        bundle = bundle_of(read_tier(GOLDEN / "tiers" / expected.name), pinned_engine(live))
        template = manifest(bundle, "Deployment")["spec"]["template"]
        assert dump([template]) == dump([live["spec"]["template"]]), f"{release.name}/{expected.name}"


def test_every_release_has_a_folder() -> None:
    assert CURRENT in RELEASES
    assert {path.name for path in TIERS} == {path.name for path in CURRENT.glob("*.yaml")}
