"""Every rule of the API: a tier that breaks it is refused with its words at its path, and near misses pass."""

from typing import Any

import pytest

from tests.support.tiers import FINE, REFUSED
from tests.support.tiers.cases import Case, Fine, spec, tier
from tierwright.api.parse import ParsedTier, parse_tier
from tierwright.api.rules import RULES
from tierwright.api.tier import TierSpec


def parsed(case: Case | Fine) -> ParsedTier:
    old: TierSpec | None = None
    if case.before is not None:
        stored = parse_tier(tier(spec(case.base, case.before)), strict=True)
        assert stored.tier is not None, stored.errors
        old = stored.tier.spec
    return parse_tier(tier(spec(case.base, case.changes)), strict=True, old=old)


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_tier_that_breaks_a_rule_is_refused_at_its_path(case: Case) -> None:
    result = parsed(case)
    assert result.tier is None
    assert [error.path for error in result.errors] == [case.path], result.errors
    assert result.errors[0].message.startswith(case.words)


@pytest.mark.parametrize("case", FINE, ids=str)
def test_a_tier_close_to_a_rule_passes(case: Fine) -> None:
    assert parsed(case).errors == ()


def test_every_rule_has_a_tier_that_breaks_it() -> None:
    refused = {
        (error.path.partition("[")[0], error.message) for case in REFUSED for error in parsed(case).errors
    }
    missing = [
        rule
        for rule in RULES
        if not any(
            path == f"{rule.at}.{rule.field}".partition("[")[0] and words.startswith(rule.message)
            for path, words in refused
        )
    ]
    assert not missing


@pytest.mark.parametrize(
    ("base", "changes", "figures"),
    [
        ("gpu", {"engine.tensorParallel": 4, "engine.dataParallel": 2, "hardware.count": 3}, "GPUs: 3, parts of the model: 8"),
        ("gpu", {"hardware.count": 2, "hardware.hosts": 3}, "GPUs: 6, parts of the model: 1"),
        ("neuron", {"engine.tensorParallel": 4, "hardware.count": 3}, "cores: 6, parts of the model: 4"),
        ("neuron", {"hardware.count": 4, "hardware.resourceName": "aws.amazon.com/neuroncore"}, "cores: 4, parts of the model: 2"),
    ],
)  # fmt: skip
def test_the_rule_on_the_count_shows_its_numbers(base: str, changes: dict[str, Any], figures: str) -> None:
    (error,) = parse_tier(tier(spec(base, changes)), strict=True).errors
    assert error.message.endswith(f" (here {figures})")


def test_messages_are_single_sentences_that_name_a_remedy() -> None:
    for rule in RULES:
        assert "\n" not in rule.message
        assert len(rule.message) <= 2048  # the API server's limit
        assert any(mark in rule.message for mark in (";", "remove it", "use one of", "forms")), rule.message
