"""What a scrape does to the truth: pages come late, some not at all, gauges are read at an unlucky moment, and for a while all is silent."""

import random
from collections import deque
from dataclasses import dataclass, replace

from bench.autoscale.fleet_page import page
from bench.autoscale.policy import Policy, Snapshot
from tierwright.planning.counters import Counters


@dataclass(frozen=True, slots=True)
class Scraping:
    """How pages reach a policy; times in seconds. As it is by default in every scenario."""

    least_lag: float = 15.0
    most_lag: float = 30.0
    """A page's age when it is read lies evenly between the two; never older than one that was read before."""
    dropped: float = 0.02
    """Share of ticks at which no page comes."""
    noise: float = 0.03
    """Greatest relative error of the gauges; counters are exact."""
    outage: tuple[float, float] = (0.0, 0.0)
    """From when to when no page comes."""


class Scraped:
    """A policy behind a scrape: takes pages that are fresh, shows those that a scrape would have brought by then.

    The counts of ready and starting replicas come from the API server and not from a scrape, so they stay as they are.
    """

    def __init__(self, policy: Policy, scraping: Scraping, seed: int) -> None:
        self.name = policy.name
        self._policy, self._scraping = policy, scraping
        self._draw = random.Random(f"scrape/{seed}")  # noqa: S311 - a simulation
        self._pages: deque[tuple[float, str]] = deque()

    def tick(self, seen: Snapshot) -> int | None:
        """Keep the fresh page, and let the policy decide by one that is old enough."""
        scraping = self._scraping
        if seen.page is not None:
            self._pages.append(seen.page)
        lag = self._draw.uniform(scraping.least_lag, scraping.most_lag)
        dropped = self._draw.random() < scraping.dropped
        while len(self._pages) > 1 and self._pages[1][0] <= seen.now - lag:
            self._pages.popleft()
        silent = dropped or scraping.outage[0] <= seen.now < scraping.outage[1]
        old_enough = self._pages and self._pages[0][0] <= seen.now - scraping.least_lag
        shown = self._pages[0] if old_enough and not silent else None
        return self._policy.tick(replace(seen, page=shown))


class NoisyPages:
    """Makes the page of a fleet with gauges that are a little off."""

    def __init__(self, scraping: Scraping, seed: int, *, steps: bool = True) -> None:
        self._noise, self._steps = scraping.noise, steps
        self._draw = random.Random(f"noise/{seed}")  # noqa: S311 - a simulation

    def __call__(self, counters: Counters, kv_blocks: int, block_size: int) -> str:
        """The page with its gauges disturbed."""
        disturbed = replace(
            counters,
            running=round(counters.running * self._factor()),
            waiting=round(counters.waiting * self._factor()),
            kv_usage=min(1.0, counters.kv_usage * self._factor()),
        )
        return page(disturbed, kv_blocks, block_size, steps=self._steps)

    def _factor(self) -> float:
        return 1 + self._draw.uniform(-self._noise, self._noise)
