"""Decides how much of a prompt is cached, for how long, and how its tokens are counted (Anthropic's and OpenAI's way)."""

from collections.abc import Sequence
from dataclasses import dataclass

MOST_BREAKPOINTS = 4
SHORT_SECONDS = 300.0
LONG_SECONDS = 3600.0


@dataclass(frozen=True)
class Breakpoint:
    """`tokens` of the prompt, from its start, are worth caching for `seconds` after each use."""

    tokens: int
    seconds: float


@dataclass(frozen=True)
class CacheUsage:
    """A prompt's tokens: `read` from the cache, `created` in it by lifetime, `uncached`; together all of them."""

    read: int
    created_short: int
    created_long: int
    uncached: int

    @property
    def created(self) -> int:
        """Tokens that this request wrote."""
        return self.created_short + self.created_long


def page_lifetimes(
    prompt_tokens: int, page_tokens: int, breakpoints: Sequence[Breakpoint]
) -> tuple[float, ...]:
    """Seconds that each page worth caching lives after a use: the full pages up to the last breakpoint.

    A page that several breakpoints cover gets the longest of their lifetimes, so no page outlives those before it.
    Breakpoints beyond the prompt count as its end.
    """
    lifetimes: list[float] = []
    last = max((point.tokens for point in breakpoints), default=0)
    for page in range(min(last, prompt_tokens) // page_tokens):
        end = (page + 1) * page_tokens
        lifetimes.append(max(point.seconds for point in breakpoints if point.tokens >= end))
    return tuple(lifetimes)


def cache_usage(prompt_tokens: int, page_tokens: int, read: int, lifetimes: Sequence[float]) -> CacheUsage:
    """Counts for a prompt of which `read` tokens were found; lifetimes are `page_lifetimes` of what was stored."""
    created = [seconds for page, seconds in enumerate(lifetimes) if page * page_tokens >= read]
    long = sum(1 for seconds in created if seconds > SHORT_SECONDS) * page_tokens
    short = len(created) * page_tokens - long
    return CacheUsage(read, short, long, prompt_tokens - read - short - long)
