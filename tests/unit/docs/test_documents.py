"""The documentation: links lead somewhere, paths and commands exist, and every tier in it is one that can be built."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev import chart
from tests.support.documents import (
    ROOT,
    Block,
    anchors,
    blocks,
    code_words,
    commands,
    documents,
    links,
    stories,
)
from tierwright.api.parse import parse_tier
from tierwright.api.warnings import tier_warnings
from tierwright.desired.bundle import Bundle, BundleContext, desired_bundle

FILES = documents()
BLOCKS = [block for file in FILES for block in blocks(file)]
YAML_BLOCKS = [block for block in BLOCKS if block.language == "yaml"]
LANGUAGES = {"", "console", "json", "python", "sh", "yaml"}
LABELS = {"test", "part-of"}
A_SPEC: dict[str, Any] = {
    "model": {"name": "meta/llama-3.1-8b", "source": "hf://unsloth/Meta-Llama-3.1-8B-Instruct@main"},
    "speed": "standard",
    "engine": {"type": "vllm"},
    "hardware": {"accelerator": "nvidia", "count": 1},
}


def place(block: Block) -> str:
    return block.place


def tiers(block: Block) -> list[dict[str, Any]]:
    """The tiers that a block shows; a part of a spec is put into a whole one."""
    shown = list(yaml.safe_load_all(block.text))
    if block.labels.get("part-of") == "tier":
        metadata = {"name": "llama", "namespace": "serving"}
        return [
            {
                "apiVersion": "tierwright.dev/v1alpha1",
                "kind": "InferenceTier",
                "metadata": metadata,
                "spec": A_SPEC | part,
            }
            for part in shown
        ]
    return [each for each in shown if isinstance(each, dict) and each.get("kind") == "InferenceTier"]


def assert_can_be_built(tier: dict[str, Any], where: str) -> None:
    parsed = parse_tier(tier, strict=True)
    assert parsed.tier is not None, f"{where}: {'; '.join(map(str, parsed.errors))}"
    bundle = desired_bundle(parsed.tier, BundleContext())
    assert isinstance(bundle, Bundle), f"{where}: {bundle}"


def warnings_of(tier: dict[str, Any]) -> tuple[str, ...]:
    """What the operator would warn of."""
    parsed = parse_tier(tier, strict=True).tier
    assert parsed is not None
    return tier_warnings(parsed.spec)


def test_there_is_something_to_check() -> None:
    names = {str(file.relative_to(ROOT)) for file in FILES}
    assert {
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/quickstart.md",
        "docs/architecture.md",
    } <= names
    assert sum(1 for block in YAML_BLOCKS for _ in tiers(block)) >= 15


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_lead_somewhere(file: Path) -> None:
    broken = []
    for target in links(file.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            if not target.startswith("https://"):
                broken.append(target)
            continue
        there = (file.parent / path).resolve() if path else file
        if not there.exists() or (anchor and anchor not in anchors(there.read_text(encoding="utf-8"))):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_paths_of_the_repository_exist(file: Path) -> None:
    tops = {each.name for each in ROOT.iterdir() if not each.name.startswith(".")}
    texts = [*code_words(file.read_text(encoding="utf-8"))]
    texts += [block.text for block in blocks(file) if block.language in ("sh", "console")]
    named = {word for text in texts for word in re.findall(r"(?<![\w./@:-])[\w.-]+(?:/[\w.*-]+)+/?", text)}
    repository = {word for word in named if word.split("/")[0] in tops}
    assert sorted(word for word in repository if not list(ROOT.glob(word.rstrip("/")))) == []


@pytest.mark.parametrize("block", BLOCKS, ids=place)
def test_blocks_have_a_language_and_labels_that_mean_something(block: Block) -> None:
    assert block.language in LANGUAGES
    assert set(block.labels) <= LABELS
    assert "test" not in block.labels or block.language == "console"
    assert block.labels.get("part-of", "tier") == "tier"
    if block.language == "console":
        assert commands(block)
        assert "test" in block.labels, "a console block is run by a test; else mark it sh"


@pytest.mark.parametrize("block", YAML_BLOCKS, ids=place)
def test_yaml_is_yaml_and_tiers_can_be_built(block: Block) -> None:
    shown = list(yaml.safe_load_all(block.text))
    assert all(isinstance(each, dict) for each in shown)
    for tier in tiers(block):
        assert_can_be_built(tier, block.place)
    if "part-of" not in block.labels:
        assert all("kind" in each for each in shown), "mark a part of a tier's spec with part-of=tier"


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "python"], ids=place)
def test_python_compiles(block: Block) -> None:
    compile(block.text, block.place, "exec")


@pytest.mark.parametrize(
    "file",
    sorted(file for file in (ROOT / "docs").rglob("*.yaml") if file.parent.name != "recommendation"),
    ids=lambda file: str(file.relative_to(ROOT)),
)
def test_sample_files_can_be_built(file: Path) -> None:
    found = [each for each in yaml.safe_load_all(file.read_text(encoding="utf-8")) if each]
    assert found
    for tier in found:
        assert_can_be_built(tier, str(file))
        assert warnings_of(tier) == (), "whoever copies a sample gets no warning"


def test_the_tier_that_shows_a_shared_compile_volume_is_warned_of_nothing() -> None:
    page = ROOT / "docs/how-to/fill-compile-caches.md"
    (first, *_) = [tier for block in blocks(page) if block.language == "yaml" for tier in tiers(block)]
    assert warnings_of(first) == ()


@pytest.mark.parametrize("file", sorted((ROOT / "dev/demo/tiers").glob("*.yaml")), ids=lambda file: file.name)
def test_tiers_of_the_demo_can_be_built(file: Path) -> None:
    for tier in yaml.safe_load_all(file.read_text(encoding="utf-8")):
        assert_can_be_built(tier, str(file))


def test_the_tier_in_the_charts_notes_can_be_built() -> None:
    notes = chart.render(notes=True).partition("NOTES:")[2]
    text = re.search(r"<<'EOF'\n(.*?)\n   EOF", notes, re.DOTALL)
    assert text is not None
    assert_can_be_built(yaml.safe_load(text[1]), "NOTES.txt")


def test_make_targets_and_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    cli = "".join(
        file.read_text(encoding="utf-8") for file in (ROOT / "operator/tierwright/cli").rglob("*.py")
    )
    known = set(re.findall(r'add_parser\(\s*"([a-z]+)"', cli))
    for file in FILES:
        texts = [*code_words(file.read_text(encoding="utf-8")), *(each.text for each in blocks(file))]
        for text in texts:
            assert set(re.findall(r"(?:^|\n| )make ([a-z][a-z0-9-]*)", text)) <= targets | {"it"}, file
            assert set(re.findall(r"(?:^|[\n/])tierwright (?!operator|crd)([a-z]+)", text)) <= known, file


def test_values_of_the_chart_that_are_named_exist() -> None:
    values = yaml.safe_load((chart.CHART / "values.yaml").read_text(encoding="utf-8"))
    for file in FILES:
        for name in re.findall(r"--set(?:-json)? '?([\w.]+)=", file.read_text(encoding="utf-8")):
            node = values
            for part in name.split("."):
                assert part in node, f"{file}: {name}"
                node = node[part]


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs/decisions"
    written = {file.name for file in folder.glob("*.md")} - {"README.md"}
    listed = set(links((folder / "README.md").read_text(encoding="utf-8")))
    assert listed == written
    for name in written:
        assert "\n**Decided**: " in (folder / name).read_text(encoding="utf-8"), name


def test_every_how_to_is_listed_in_the_readme() -> None:
    shown = set(links((ROOT / "README.md").read_text(encoding="utf-8")))
    assert {f"docs/how-to/{file.name}" for file in (ROOT / "docs/how-to").glob("*.md")} <= shown


def test_the_readme_shows_the_picture_of_the_demo_as_soon_as_there_is_one() -> None:
    picture = "docs/images/demo.svg"
    assert (picture in links((ROOT / "README.md").read_text(encoding="utf-8"))) == (ROOT / picture).exists()


def test_the_quickstart_is_a_story() -> None:
    assert "quickstart" in stories()
