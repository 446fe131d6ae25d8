"""Every prompt token is counted once, as read, created or neither, and lives as long as its breakpoints say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwright_worker.engine.policies.breakpoints import (
    LONG_SECONDS,
    SHORT_SECONDS,
    Breakpoint,
    CacheUsage,
    cache_usage,
    page_lifetimes,
)

POINTS = st.lists(
    st.builds(Breakpoint, st.integers(0, 120), st.sampled_from([SHORT_SECONDS, LONG_SECONDS])), max_size=4
)


@given(st.integers(1, 100), st.integers(1, 16), POINTS, st.integers(0, 100))
def test_all_tokens_are_counted_once(
    prompt: int, page: int, points: list[Breakpoint], pages_read: int
) -> None:
    lifetimes = page_lifetimes(prompt, page, points)
    read = min(pages_read, prompt // page) * page
    usage = cache_usage(prompt, page, read, lifetimes)
    assert usage.read + usage.created + usage.uncached == prompt
    assert min(usage.read, usage.created_short, usage.created_long, usage.uncached) >= 0
    assert usage.created <= max((point.tokens for point in points), default=0)


@given(st.integers(1, 100), st.integers(1, 16), POINTS)
def test_lifetimes_never_rise(prompt: int, page: int, points: list[Breakpoint]) -> None:
    lifetimes = page_lifetimes(prompt, page, points)
    assert list(lifetimes) == sorted(lifetimes, reverse=True)
    assert len(lifetimes) <= prompt // page


@pytest.mark.parametrize(
    ("points", "read", "expected"),
    [
        ([], 0, CacheUsage(0, 0, 0, 100)),
        ([Breakpoint(70, SHORT_SECONDS)], 0, CacheUsage(0, 64, 0, 36)),
        ([Breakpoint(70, SHORT_SECONDS)], 64, CacheUsage(64, 0, 0, 36)),
        ([Breakpoint(70, SHORT_SECONDS), Breakpoint(40, LONG_SECONDS)], 0, CacheUsage(0, 32, 32, 36)),
        ([Breakpoint(999, LONG_SECONDS)], 32, CacheUsage(32, 0, 64, 4)),
        ([Breakpoint(40, SHORT_SECONDS)], 64, CacheUsage(64, 0, 0, 36)),
    ],
)
def test_counts_of_a_prompt_of_a_hundred_tokens_in_pages_of_32(
    points: list[Breakpoint], read: int, expected: CacheUsage
) -> None:
    assert cache_usage(100, 32, read, page_lifetimes(100, 32, points)) == expected
