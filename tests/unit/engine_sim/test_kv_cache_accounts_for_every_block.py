"""The KV cache never hands out more than it has, shares equal prefixes and evicts the least recently used."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dev.engine_sim.kv_cache import KvCache
from dev.engine_sim.text import block_hashes


def hashes_of(text: str, blocks: int) -> tuple[bytes, ...]:
    return block_hashes([f"{text}{i}" for i in range(blocks * 16)], 16)


def test_a_released_prefix_is_found_again_until_its_room_is_needed() -> None:
    cache = KvCache(total_blocks=4, block_size=16)
    assert cache.admit("a", hashes_of("a", 3), 0, 48)
    cache.publish("a", hashes_of("a", 3), 48)
    cache.release("a")
    assert (cache.used, cache.idle) == (0, 3)
    assert cache.cached_tokens(hashes_of("a", 3), 49) == 48
    assert cache.admit("b", hashes_of("b", 2), 0, 32)
    assert cache.cached_tokens(hashes_of("a", 3), 49) == 32, (
        "the end of a prefix goes first, its beginning stays"
    )


def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    cache = KvCache(total_blocks=4, block_size=16)
    assert cache.admit("a", hashes_of("a", 2), 0, 32)
    cache.publish("a", hashes_of("a", 2), 32)
    assert cache.cached_tokens(hashes_of("a", 2), 32) == 16


def test_a_refused_admission_leaves_everything_as_it_was() -> None:
    cache = KvCache(total_blocks=4, block_size=16)
    assert cache.admit("a", hashes_of("a", 2), 0, 32)
    cache.publish("a", hashes_of("a", 2), 32)
    assert not cache.admit("b", hashes_of("a", 5), 32, 80)
    assert (cache.used, cache.idle) == (2, 0)
    assert not cache.extend("a", 80)
    assert (cache.used, cache.usage) == (2, 0.5)


def test_nothing_is_found_where_prefix_caching_is_off() -> None:
    cache = KvCache(total_blocks=4, block_size=16, prefix_caching=False)
    assert cache.admit("a", hashes_of("a", 2), 0, 32)
    cache.publish("a", hashes_of("a", 2), 32)
    cache.release("a")
    assert cache.idle == 0
    assert cache.cached_tokens(hashes_of("a", 2), 33) == 0


class AnyUse(RuleBasedStateMachine):
    """Sequences of four texts come, grow, publish and go in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = KvCache(total_blocks=12, block_size=16)
        self.held: dict[str, tuple[str, int]] = {}
        self.count = 0

    @rule(text=st.sampled_from("abcd"), tokens=st.integers(1, 160))
    def come(self, text: str, tokens: int) -> None:
        hashes = hashes_of(text, 10)
        cached = self.cache.cached_tokens(hashes, tokens)
        assert cached < tokens
        self.count += 1
        before = self.cache.used
        if self.cache.admit(f"s{self.count}", hashes, cached, tokens):
            self.held[f"s{self.count}"] = (text, tokens)
        else:
            assert self.cache.used == before

    @rule(data=st.data(), more=st.integers(0, 60))
    def grow(self, data: st.DataObject, more: int) -> None:
        if self.held:
            name = data.draw(st.sampled_from(sorted(self.held)))
            text, tokens = self.held[name]
            if self.cache.extend(name, tokens + more):
                self.held[name] = (text, tokens + more)
            self.cache.publish(name, hashes_of(text, 10), self.held[name][1])

    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        if self.held:
            name = data.draw(st.sampled_from(sorted(self.held)))
            self.cache.release(name)
            del self.held[name]

    @invariant()
    def never_more_than_there_is(self) -> None:
        assert self.cache.used >= 0
        assert self.cache.used + self.cache.idle <= self.cache.total_blocks
        needed = [self.cache.blocks_for(tokens) for _, tokens in self.held.values()]
        assert max(needed, default=0) <= self.cache.used <= sum(needed)


TestAnyUse = AnyUse.TestCase
TestAnyUse.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
