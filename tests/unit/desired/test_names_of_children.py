"""Every child of every legal tier has a legal name and legal labels, and no two tiers share one."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tier_bundles import bundle_of, tier
from tierwright.desired.names import child_name, label_value

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
TIER_NAMES = st.text("ab09-.", min_size=1, max_size=253).filter(
    lambda name: name[0] in "ab09" and name[-1] in "ab09"
)
SUFFIXES = st.sampled_from(["", "headless", "weights-0a1b2c3d"])


@settings(deadline=None)
@given(TIER_NAMES, SUFFIXES)
def test_every_child_of_every_tier_has_a_name_that_services_take(name: str, suffix: str) -> None:
    made = child_name(name, suffix)
    assert len(made) <= 63
    assert DNS_1035.fullmatch(made)
    assert made.endswith(suffix)


@settings(deadline=None)
@given(st.lists(TIER_NAMES, min_size=2, max_size=8, unique=True))
def test_no_two_tiers_share_the_name_of_a_child(names: list[str]) -> None:
    for suffix in ("", "headless"):
        made = [child_name(name, suffix) for name in names]
        assert len(set(made)) == len(made)


def test_names_that_differ_only_in_what_is_cut_or_replaced_stay_apart() -> None:
    long = "a" * 70
    names = [long + "x", long + "y", "a.b", "a-b", "7b", "t-7b"]
    assert len({child_name(name) for name in names}) == len(names)


def test_a_plain_name_stays_readable() -> None:
    assert child_name("llama-70b-fast") == "llama-70b-fast"
    assert child_name("llama-70b-fast", "headless") == "llama-70b-fast-headless"


def test_a_tier_called_like_the_headless_service_of_another_does_not_take_it() -> None:
    assert child_name("a-headless") != child_name("a", "headless")


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_becomes_a_legal_label_value(text: str) -> None:
    value = label_value(text)
    assert len(value) <= 63
    assert LABEL_VALUE.fullmatch(value)


def test_model_names_that_differ_only_in_a_slash_get_different_labels() -> None:
    assert label_value("meta/llama-3.3") != label_value("meta-llama-3.3")
    assert label_value("meta-llama-3.3") == "meta-llama-3.3"


@pytest.mark.parametrize("name", ["x" * 253, "7b.fast", "a" * 62 + "." + "b" * 190, "9"])
def test_the_longest_and_oddest_tier_names_fit_into_every_child(name: str) -> None:
    caches = {"weights": {"size": "1Gi"}, "compile": {"size": "1Gi", "sharing": "Shared"}}
    bundle = bundle_of(tier(name=name, cache=caches))
    for child in bundle.children:
        metadata = child.manifest["metadata"]
        assert len(metadata["name"]) <= 63
        assert DNS_1035.fullmatch(metadata["name"])
        assert all(len(value) <= 63 and LABEL_VALUE.fullmatch(value) for value in metadata["labels"].values())


def test_the_full_served_name_stands_in_an_annotation() -> None:
    served = "meta/" + "x" * 200
    bundle = bundle_of(tier(model={"name": served, "source": "hf://a/b"}))
    for child in bundle.children:
        assert child.manifest["metadata"]["annotations"]["tierwright.dev/model-name"] == served
