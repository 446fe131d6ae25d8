"""Every rule of the API: a tier that breaks it is refused with its words at its path, and near misses pass."""

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
        rule for rule in RULES if (f"{rule.at}.{rule.field}".partition("[")[0], rule.message) not in refused
    ]
    assert not missing


def test_messages_are_single_sentences_that_name_a_remedy() -> None:
    for rule in RULES:
        assert "\n" not in rule.message
        assert len(rule.message) <= 2048  # the API server's limit
        assert any(mark in rule.message for mark in (";", "remove it", "use one of", "forms")), rule.message
