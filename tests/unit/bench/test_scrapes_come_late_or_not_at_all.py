"""A policy sees pages as late, as often and as noisy as told, and nothing else changes."""

import re

import pytest

from bench.autoscale.policy import Snapshot
from bench.autoscale.scrape import NoisyPages, Scraped, Scraping
from tests.unit.bench.snapshots import seen
from tierwright.planning.counters import Counters


class Keeping:
    """Keeps what it is shown."""

    name = "keeping"

    def __init__(self) -> None:
        self.seen: list[Snapshot] = []

    def tick(self, seen: Snapshot) -> int | None:
        """Nothing to change."""
        self.seen.append(seen)
        return None


def shown(scraping: Scraping, seed: int = 1, ticks: int = 500) -> list[Snapshot]:
    """What a policy is shown over so many ticks of 10 s."""
    policy = Keeping()
    behind = Scraped(policy, scraping, seed)
    for tick in range(1, ticks + 1):
        behind.tick(seen(tick * 10.0, f"page {tick}", 3))
    return policy.seen


def test_a_page_is_as_old_as_told_and_never_older_than_one_before() -> None:
    pages = [(each.now, each.page) for each in shown(Scraping(dropped=0.0)) if each.page is not None]
    ages = [now - page[0] for now, page in pages]
    assert min(ages) >= 15
    assert max(ages) < 40  # 30 s, and up to a tick more
    times = [page[0] for _, page in pages]
    assert times == sorted(times)
    assert all(page[1] == f"page {page[0] / 10:.0f}" for _, page in pages)


def test_before_the_first_page_is_old_enough_there_is_none() -> None:
    assert [each.page for each in shown(Scraping(dropped=0.0), ticks=2)] == [None, None]


def test_scrapes_are_dropped_as_often_as_told_and_alike_for_a_seed() -> None:
    lost = [[each.page is None for each in shown(Scraping(dropped=0.2), seed)] for seed in (1, 1, 2)]
    assert sum(lost[0]) == pytest.approx(100, abs=35)
    assert lost[0] == lost[1] != lost[2]


def test_an_outage_is_silent_and_the_counts_of_replicas_come_on() -> None:
    for each in shown(Scraping(dropped=0.0, outage=(1000.0, 1300.0))):
        assert each.ready == 3
        if each.now > 60:
            assert (each.page is None) == (1000 <= each.now < 1300)


def test_gauges_are_off_by_no_more_than_told_and_counters_are_exact() -> None:
    counters = Counters(running=1000, waiting=200, kv_usage=0.5, finished=12_345, prompt_tokens=7.0)
    make = NoisyPages(Scraping(noise=0.1), seed=1)
    running = set()
    for _ in range(50):
        page = make(counters, 100, 16)
        for name, exact in (("num_requests_running", 1000), ("num_requests_waiting", 200)):
            found = re.search(rf"vllm:{name}{{.*}} (\S+)", page)
            assert found is not None
            assert float(found[1]) == pytest.approx(exact, rel=0.101)
            running.add(found[1])
        assert 'finished_reason="stop"} 12345' in page
    assert len(running) > 20
    assert counters.running == 1000


def test_a_page_without_steps_has_no_steps() -> None:
    assert "iteration_tokens" in NoisyPages(Scraping(), 1)(Counters(), 10, 16)
    assert "iteration_tokens" not in NoisyPages(Scraping(), 1, steps=False)(Counters(), 10, 16)
