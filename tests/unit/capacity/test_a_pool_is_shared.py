"""Tiers share a pool: nobody's burst takes another's minimum, equals share by need and price, and fallback traffic counts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwright.capacity.budget import Claim, divide

FAST = Claim("fast", minimum=1, maximum=20, current=2, wanted=2, devices=4, priority=10, price=6.0)
STANDARD = Claim("standard", minimum=2, maximum=20, current=4, wanted=4, devices=1)


def granted(*claims: Claim, devices: int) -> dict[str, int]:
    return {grant.tier: grant.replicas for grant in divide(claims, devices)}


def test_everybody_gets_what_fits() -> None:
    assert granted(FAST, STANDARD, devices=12) == {"fast": 2, "standard": 4}


def test_a_fast_tiers_burst_leaves_the_standard_tiers_minimum() -> None:
    burst = replace(FAST, wanted=20)
    assert granted(burst, STANDARD, devices=16) == {"fast": 3, "standard": 4}
    assert granted(burst, replace(STANDARD, minimum=4), devices=16) == {"fast": 3, "standard": 4}


def test_priority_takes_what_is_above_a_minimum() -> None:
    burst = replace(FAST, wanted=3)
    assert granted(burst, STANDARD, devices=14) == {"fast": 3, "standard": 2}


def test_minimums_that_do_not_fit_go_by_priority() -> None:
    assert granted(STANDARD, replace(FAST, minimum=2), devices=9) == {"standard": 1, "fast": 2}


def test_equals_keep_what_they_run_and_use() -> None:
    other = replace(STANDARD, tier="other", minimum=0, current=0, wanted=6)
    assert granted(STANDARD, other, devices=6) == {"standard": 4, "other": 2}


def test_an_equal_gives_back_what_it_does_not_want() -> None:
    shrinking = replace(STANDARD, current=6, wanted=2)
    other = replace(STANDARD, tier="other", minimum=0, current=0, wanted=6)
    assert granted(shrinking, other, devices=6) == {"standard": 2, "other": 4}


def test_new_devices_go_to_the_shortest_by_price() -> None:
    dear = replace(STANDARD, tier="dear", minimum=0, current=0, wanted=6, price=2.0)
    cheap = replace(STANDARD, tier="cheap", minimum=0, current=0, wanted=6)
    assert granted(cheap, dear, devices=6) == {"cheap": 2, "dear": 4}


def test_shortage_is_told() -> None:
    (grant,) = divide([replace(STANDARD, wanted=9)], 5)
    assert (grant.replicas, grant.short) == (5, 4)


def test_traffic_that_falls_back_is_the_other_tiers_demand() -> None:
    burst = replace(FAST, wanted=4, fallback="standard", fallback_ratio=2.0)
    fast, standard = divide([burst, replace(STANDARD, wanted=3, current=3)], 16)
    assert (fast.replicas, fast.short) == (3, 1)
    assert standard.taken_on == 2.0
    assert (standard.replicas, standard.short) == (4, 1)


def test_a_pool_without_tiers_grants_nothing() -> None:
    assert divide((), 8) == ()


def test_a_ring_of_fallbacks_ends() -> None:
    one = replace(STANDARD, tier="one", wanted=10, fallback="two")
    two = replace(STANDARD, tier="two", wanted=10, fallback="one")
    assert sum(granted(one, two, devices=8).values()) == 8


def test_a_fallback_outside_the_pool_changes_nothing() -> None:
    assert granted(replace(FAST, wanted=9, fallback="elsewhere"), devices=8) == {"fast": 2}


def test_claims_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="once"):
        divide([FAST, FAST], 9)
    with pytest.raises(ValueError, match="device"):
        divide([replace(FAST, devices=0)], 9)


@st.composite
def pools(draw: st.DrawFn) -> tuple[list[Claim], int]:
    names = ("a", "b", "c", "d")
    claims = [
        Claim(
            tier=name,
            minimum=draw(st.integers(0, 3)),
            maximum=draw(st.integers(3, 12)),
            current=draw(st.integers(0, 6)),
            wanted=draw(st.integers(0, 15)),
            devices=draw(st.integers(1, 4)),
            priority=draw(st.integers(0, 2)),
            price=draw(st.floats(0, 9)),
            fallback=draw(st.sampled_from((None, *names))),
        )
        for name in names[: draw(st.integers(1, 4))]
    ]
    return claims, draw(st.integers(0, 60))


@given(pools())
def test_no_device_is_granted_twice_and_minimums_come_first(pool: tuple[list[Claim], int]) -> None:
    claims, devices = pool
    grants = divide(claims, devices)
    assert sum(grant.replicas * claim.devices for grant, claim in zip(grants, claims, strict=True)) <= devices
    fits = sum(claim.minimum * claim.devices for claim in claims) <= devices
    for grant, claim in zip(grants, claims, strict=True):
        assert grant.replicas <= claim.maximum
        assert not fits or grant.replicas >= claim.minimum
