"""Sources mean what they say, and the API's rules accept exactly those that the operator can read."""

import pytest

from tests.support.tiers.cases import spec, tier
from tierwright.api.parse import parse_tier
from tierwright.api.sources import BucketSource, ClaimSource, FileSource, HubSource, parse_source


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("hf://org/model", HubSource("org/model", "main")),
        ("hf://org/model@v1.0", HubSource("org/model", "v1.0")),
        ("hf://org/model@refs/pr/1", HubSource("org/model", "refs/pr/1")),
        ("s3://bucket", BucketSource("bucket", "")),
        ("s3://bucket/a//b/", BucketSource("bucket", "a//b")),
        ("pvc://claim", ClaimSource("claim", "")),
        ("pvc://claim/", ClaimSource("claim", "")),
        ("pvc://claim//a/./b/", ClaimSource("claim", "a/b")),
        ("file:///a/b", FileSource("/a/b")),
        ("file:///models/m.gguf", FileSource("/models/m.gguf")),
    ],
)
def test_sources_mean_what_they_say(text: str, source: object) -> None:
    assert parse_source(text) == source
    assert parse_tier(tier(spec("gpu", {"model.source": text})), strict=True).errors == ()


@pytest.mark.parametrize(
    "text",
    [
        "hf://",
        "hf://model",
        "hf://a/b/c",
        "hf://a/b@",
        "hf://a/b@../../x",
        "s3://",
        "s3://B/x",
        "s3://bucket/../other",
        "pvc://",
        "pvc://Claim",
        "pvc://claim/../x",
        "file://relative",
        "file:///",
        "file:///.",
        "file:///a/../b",
        "gs://bucket/m",
        "oci://registry/m",
        "http://example.com/m",
        "",
    ],
)
def test_sources_that_name_nothing_or_leave_their_folder_are_refused_by_both(text: str) -> None:
    assert parse_source(text) is None
    assert parse_tier(tier(spec("gpu", {"model.source": text})), strict=True).errors


def test_a_source_is_said_in_the_form_that_names_its_revision() -> None:
    assert str(parse_source("hf://org/model")) == "hf://org/model@main"
    assert str(parse_source("s3://bucket/a/")) == "s3://bucket/a"
    assert str(parse_source("s3://bucket")) == "s3://bucket"
