"""The prompt cache says only what is true: right contents, right tenant, not expired, within its rooms, prefixes whole."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tierwright_worker.engine.interface import CacheChange, CacheMatch, CacheSettings, PageRef, PageTier
from tierwright_worker.engine.policies.prompt_cache import PromptCacheIndex, cache_salt, page_keys

PAGE = 4
TOKENS = st.lists(st.integers(0, 2), max_size=6 * PAGE)


def keys_of(tokens: Sequence[int], tenant: str = "") -> tuple[bytes, ...]:
    """Keys of a prompt."""
    return page_keys(tokens, page_tokens=PAGE, salt=cache_salt("model", tenant))


def index(device: int = 8, host: int = 0, ttl: float = 300) -> PromptCacheIndex:
    """An empty cache."""
    return PromptCacheIndex(CacheSettings(PAGE, device, host, ttl))


def prompt(page_numbers: str) -> tuple[bytes, ...]:
    """Keys of a prompt of which each page repeats one digit."""
    return keys_of([int(digit) for digit in page_numbers for _ in range(PAGE)])


class CacheMachine(RuleBasedStateMachine):
    """Carries out every move on pretended memory, and keeps a plain record of what was stored and used when."""

    @initialize(device=st.integers(0, 5), host=st.integers(0, 5), ttl=st.sampled_from([5.0, 50.0]))
    def begin(self, device: int, host: int, ttl: float) -> None:
        self.settings = CacheSettings(PAGE, device, host, ttl)
        self.cache = PromptCacheIndex(self.settings)
        self.memory: dict[PageRef, bytes] = {}
        self.ends: dict[bytes, float] = {}
        self.lifetimes: dict[bytes, float] = {}
        self.parents: dict[bytes, bytes | None] = {}
        self.now = 0.0

    @rule(seconds=st.floats(0, 20))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(tokens=TOKENS, tenant=st.sampled_from(["", "a"]))
    def match(self, tokens: list[int], tenant: str) -> None:
        self.check(keys_of(tokens, tenant), self.cache.match(keys_of(tokens, tenant), now=self.now))

    @rule(tokens=TOKENS, tenant=st.sampled_from(["", "a"]))
    def use(self, tokens: list[int], tenant: str) -> None:
        keys = keys_of(tokens, tenant)
        before = self.cache.match(keys, now=self.now)
        found = self.cache.use(keys, now=self.now)
        assert found == before
        self.check(keys, found)
        self.refresh(keys[: len(found.pages)])

    @rule(tokens=TOKENS, tenant=st.sampled_from(["", "a"]), long=st.none() | st.integers(0, 6))
    def insert(self, tokens: list[int], tenant: str, long: int | None) -> None:
        keys = keys_of(tokens, tenant)
        lifetimes = None if long is None else [40.0 if page < long else 7.0 for page in range(len(keys))]
        change = self.cache.insert(keys, now=self.now, lifetimes=lifetimes)
        self.carry_out(change, keys)
        found = self.cache.match(keys, now=self.now)
        room = max(self.settings.device_pages, self.settings.host_pages)
        assert len(found.pages) >= min(len(keys), room)
        parent = None
        for page, key in enumerate(keys[: len(found.pages)]):
            seconds = self.settings.ttl if lifetimes is None else lifetimes[page]
            self.lifetimes[key] = max(self.lifetimes.get(key, 0.0), seconds)
            self.parents[key] = parent
            parent = key
        self.refresh(keys[: len(found.pages)])
        self.check(keys, found)

    @rule()
    def expire(self) -> None:
        present = sum(self.cache.pages.values())
        change = self.cache.expire(now=self.now)
        assert not change.moves
        assert sum(self.cache.pages.values()) == present - change.evicted.get("ttl", 0)

    def refresh(self, keys: Sequence[bytes]) -> None:
        """Note that keys were used now; what had been forgotten in between starts with what was stored last."""
        for key in keys:
            self.ends[key] = self.now + self.lifetimes[key]

    def carry_out(self, change: CacheChange, keys: Sequence[bytes]) -> None:
        """Copy pages as an executor would; the slot's page holds the contents of its key."""
        for move in change.moves:
            if move.source is None:
                assert keys[move.page] == move.key
                self.memory[move.target] = move.key
            else:
                assert self.memory[move.source] == move.key
                self.memory[move.target] = move.key

    def check(self, keys: Sequence[bytes], found: CacheMatch) -> None:
        """Every page that was found holds what its key says, and was not promised for less time than has passed."""
        assert found.tokens == len(found.pages) * PAGE
        for key, place in zip(keys, found.pages, strict=False):
            assert self.memory[place] == key
            assert self.now < self.ends[key]

    @invariant()
    def rooms_hold(self) -> None:
        """No tier holds more pages than it has."""
        if hasattr(self, "cache"):
            assert self.cache.pages[PageTier.DEVICE] <= self.settings.device_pages
            assert self.cache.pages[PageTier.HOST] <= self.settings.host_pages

    @invariant()
    def no_page_is_kept_without_those_before_it(self) -> None:
        if hasattr(self, "cache"):
            self.cache.expire(now=self.now)
            chain: dict[bytes, bool] = {}
            for key, parent in self.parents.items():
                chain[key] = bool(self.cache.match((key,), now=self.now).pages)
                assert not chain[key] or parent is None or chain[parent]


TestCacheMachine = CacheMachine.TestCase


@given(TOKENS, TOKENS, st.text(max_size=3), st.text(max_size=3))
def test_equal_keys_mean_equal_tenants_and_equal_beginnings(
    first: list[int], second: list[int], one: str, other: str
) -> None:
    for page, (left, right) in enumerate(zip(keys_of(first, one), keys_of(second, other), strict=False)):
        end = (page + 1) * PAGE
        assert (left == right) == (one == other and first[:end] == second[:end])


@given(TOKENS)
def test_only_full_pages_have_keys(tokens: list[int]) -> None:
    assert len(keys_of(tokens)) == len(tokens) // PAGE


@given(st.text(max_size=3), st.text(max_size=3), st.text(max_size=3), st.text(max_size=3))
def test_no_two_pairs_of_engine_and_tenant_share_a_salt(a: str, b: str, c: str, d: str) -> None:
    assert (cache_salt(a, b) == cache_salt(c, d)) == ((a, b) == (c, d))


def test_a_hit_at_four_fifths_of_the_lifetime_keeps_the_prompt_alive() -> None:
    cache = index(ttl=100)
    cache.insert(prompt("12"), now=0)
    assert cache.use(prompt("12"), now=80).tokens == 2 * PAGE
    assert cache.match(prompt("12"), now=160).tokens == 2 * PAGE


def test_a_look_alone_does_not_keep_a_prompt_alive() -> None:
    cache = index(ttl=100)
    cache.insert(prompt("12"), now=0)
    assert cache.match(prompt("12"), now=80).tokens == 2 * PAGE
    assert cache.match(prompt("12"), now=100).tokens == 0
    assert cache.expire(now=100) == CacheChange((), {"ttl": 2})


def test_the_least_recently_used_prompt_goes_first_and_from_its_end() -> None:
    cache = index(device=4)
    cache.insert(prompt("12"), now=0)
    cache.insert(prompt("34"), now=1)
    cache.use(prompt("12"), now=2)
    change = cache.insert(prompt("5"), now=3)
    assert change.evicted == {"pressure": 1}
    assert cache.match(prompt("34"), now=3).tokens == PAGE
    assert cache.match(prompt("12"), now=3).tokens == 2 * PAGE


def test_what_the_device_has_no_room_for_goes_to_the_host_and_comes_back() -> None:
    cache = index(device=2, host=2)
    cache.insert(prompt("12"), now=0)
    change = cache.insert(prompt("34"), now=1)
    assert not change.evicted
    assert [move.source and move.source.tier for move in change.moves] == [PageTier.DEVICE, None] * 2
    assert {page.tier for page in cache.match(prompt("12"), now=2).pages} == {PageTier.HOST}
    cache.use(prompt("12"), now=2)
    cache.insert(prompt("12"), now=2)
    assert {page.tier for page in cache.match(prompt("12"), now=2).pages} == {PageTier.DEVICE}
    assert {page.tier for page in cache.match(prompt("34"), now=2).pages} == {PageTier.HOST}


def test_a_prompt_larger_than_the_device_keeps_its_beginning_there() -> None:
    cache = index(device=1, host=1)
    cache.insert(prompt("123"), now=0)
    found = cache.match(prompt("123"), now=0)
    assert [page.tier for page in found.pages] == [PageTier.DEVICE, PageTier.HOST]
    assert cache.insert(prompt("123"), now=1).moves == ()


def test_an_expired_prompt_makes_room_before_a_living_one() -> None:
    cache = index(device=2)
    cache.insert(prompt("1"), now=0, lifetimes=[3600])
    cache.insert(prompt("2"), now=1, lifetimes=[10])
    assert cache.insert(prompt("3"), now=20).evicted == {"ttl": 1}
    assert cache.match(prompt("1"), now=20).tokens == PAGE


def test_a_page_lives_as_long_as_those_behind_it() -> None:
    cache = index()
    cache.insert(prompt("12"), now=0, lifetimes=[10, 3600])
    assert cache.match(prompt("12"), now=60).tokens == 2 * PAGE


def test_many_uses_do_not_grow_the_index() -> None:
    cache = index()
    cache.insert(prompt("1"), now=0)
    for second in range(500):
        cache.use(prompt("1"), now=second)
    assert len(cache._ends) < 100
    assert cache.match(prompt("1"), now=600).tokens == PAGE


def test_a_cache_without_pages_keeps_nothing() -> None:
    cache = index(device=0, host=0)
    assert cache.insert(prompt("12"), now=0) == CacheChange()
    assert cache.use(prompt("12"), now=0) == CacheMatch()


def test_lifetimes_must_be_as_many_as_the_pages() -> None:
    with pytest.raises(ValueError, match="2 pages need as many lifetimes, got 1"):
        index().insert(prompt("12"), now=0, lifetimes=[1])


@pytest.mark.parametrize(
    "settings",
    [
        CacheSettings(0, 1, 1, 1),
        CacheSettings(1, -1, 1, 1),
        CacheSettings(1, 1, -1, 1),
        CacheSettings(1, 1, 1, 0),
    ],
)
def test_impossible_sizes_are_refused(settings: CacheSettings) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        PromptCacheIndex(settings)
