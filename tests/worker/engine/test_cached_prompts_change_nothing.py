"""A prompt whose beginning is cached gives the same bits as one that is computed: pages hold what prefill would write."""

from pathlib import Path

import numpy as np
import pytest

from tests.worker.support import Bench, bench, greedy, random_model, run, texts
from tierwright_worker.engine.cached_prompts import CachedPrompts
from tierwright_worker.engine.interface import CacheSettings
from tierwright_worker.engine.sequence import Request

PAGE = 32


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A small random model whose executor copies pages of 32 tokens."""
    folder: Path = tmp_path_factory.mktemp("paged")
    config, parameters = random_model("qwen2", folder)
    return bench(config, parameters, slots=2, max_context=256, draft_tokens=2, page_tokens=PAGE)


def prompt(seed: int, length: int) -> tuple[int, ...]:
    """Random tokens."""
    return tuple(int(token) for token in np.random.default_rng(seed).integers(3, 128, length))


def prompts_with(machine: Bench, *, device_pages: int, host_pages: int) -> CachedPrompts:
    """A prompt cache of this size on the machine."""
    settings = CacheSettings(page_tokens=PAGE, device_pages=device_pages, host_pages=host_pages, ttl=300.0)
    return CachedPrompts(settings, machine.executor, "test")


@pytest.mark.parametrize(("device_pages", "host_pages"), [(64, 0), (1, 64)])
def test_text_is_equal_with_and_without_the_cache(machine: Bench, device_pages: int, host_pages: int) -> None:
    shared = prompt(1, 130)
    requests = [Request(f"r{at}", shared + prompt(10 + at, 5 + 9 * at), greedy(30)) for at in range(4)]
    expected = texts(run(machine.engine(), requests))
    engine = machine.engine(
        draft_tokens=2,
        prompts=prompts_with(machine, device_pages=device_pages, host_pages=host_pages),
    )
    first = engine.counters.prefill_tokens
    for request in requests:
        assert texts(run(engine, [request]))[request.id] == expected[request.id]
    computed = engine.counters.prefill_tokens - first
    assert computed <= sum(len(request.prompt) for request in requests) - 3 * 4 * PAGE
    events = engine.cache_events()
    assert sum(events.hits.values()) >= 3 * 4 * PAGE
    assert ("host" in events.hits) == (host_pages > 0)


def test_tenants_do_not_see_each_others_prompts(machine: Bench) -> None:
    engine = machine.engine(prompts=prompts_with(machine, device_pages=64, host_pages=0))
    shared = prompt(2, 140)
    run(engine, [Request("a", shared, greedy(2), tenant="one")])
    run(engine, [Request("b", shared, greedy(2), tenant="two")])
    assert sum(engine.cache_events().hits.values()) == 0
    run(engine, [Request("c", shared, greedy(2), tenant="two")])
    assert sum(engine.cache_events().hits.values()) == 4 * PAGE
