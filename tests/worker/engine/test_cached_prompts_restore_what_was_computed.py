"""Whatever comes and goes, a slot that is restored holds what computing the prompt would have put there."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tierwright_worker.engine.cached_prompts import CachedPrompts
from tierwright_worker.engine.interface import CacheSettings, PageTier
from tierwright_worker.engine.policies.breakpoints import SHORT_SECONDS, Breakpoint

PAGE = 4


@dataclass
class ListCopies:
    """Slots that are lists of tokens; a page remembers where it lies."""

    slots: list[list[int]] = field(default_factory=lambda: [[-1] * 64 for _ in range(3)])
    saved: int = 0

    def save(self, slot: int, start: int) -> tuple[str, tuple[int, ...]]:
        self.saved += 1
        return "device", tuple(self.slots[slot][start : start + PAGE])

    def restore(self, page: tuple[str, tuple[int, ...]], slot: int, start: int) -> None:
        self.slots[slot][start : start + PAGE] = page[1]

    def to_host(self, page: tuple[str, tuple[int, ...]]) -> tuple[str, tuple[int, ...]]:
        return "host", page[1]


def cache(device: int = 8, host: int = 0) -> tuple[CachedPrompts, ListCopies]:
    """An empty cache."""
    copies = ListCopies()
    return CachedPrompts(CacheSettings(PAGE, device, host, SHORT_SECONDS), copies, "model"), copies


REQUESTS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 1), min_size=1, max_size=6 * PAGE),
        st.sampled_from(["a", "b"]),
        st.integers(0, 2),
        st.integers(0, 200),
    ),
    max_size=20,
)


@settings(deadline=None, derandomize=True, database=None)
@given(REQUESTS, st.integers(0, 6), st.integers(0, 4))
def test_a_restored_slot_holds_the_prompt(
    requests: list[tuple[list[int], str, int, int]], device: int, host: int
) -> None:
    prompts, copies = cache(device, host)
    now = 0.0
    for prompt, tenant, slot, seconds in requests:
        now += seconds
        copies.slots[slot] = [-1] * 64
        keys = prompts.keys(prompt, tenant)
        found = prompts.found(keys, len(prompt), now=now)
        read = prompts.restore(keys, len(prompt), slot, now=now)
        assert read == found < len(prompt)
        assert copies.slots[slot][:read] == prompt[:read]
        copies.slots[slot][: len(prompt)] = prompt
        usage = prompts.store(keys, len(prompt), slot, None, read=read, now=now)
        assert usage.read + usage.created + usage.uncached == len(prompt)
        assert all(page[0] == str(ref.tier) for ref, page in prompts._pages.items())


def test_breakpoints_decide_what_is_kept() -> None:
    prompts, copies = cache()
    prompt = list(range(20))
    copies.slots[0][:20] = prompt
    keys = prompts.keys(prompt, "")
    assert prompts.store(keys, 20, 0, (), read=0, now=0).created == 0
    usage = prompts.store(keys, 20, 0, (Breakpoint(9, SHORT_SECONDS),), read=0, now=0)
    assert (usage.created, usage.uncached) == (8, 12)
    assert prompts.found(keys, 20, now=1) == 8
    assert copies.saved == 2


def test_what_finds_no_room_is_not_counted_as_created() -> None:
    prompts, copies = cache(device=1)
    prompt = list(range(12))
    copies.slots[0][:12] = prompt
    usage = prompts.store(prompts.keys(prompt, ""), 12, 0, None, read=0, now=0)
    assert (usage.created, usage.uncached) == (4, 8)


def test_events_are_counted_once() -> None:
    prompts, copies = cache(device=1, host=1)
    copies.slots[0][:12] = range(12)
    keys = prompts.keys(range(12), "")
    prompts.store(keys, 12, 0, None, read=0, now=0)
    assert prompts.restore(keys, 12, 1, now=1) == 8
    events = prompts.take_events()
    assert (events.queries, events.hits) == (12, {PageTier.DEVICE: 4, PageTier.HOST: 4})
    assert prompts.take_events().queries == 0
    prompts.store(prompts.keys(range(50, 58), ""), 8, 1, None, read=0, now=2)
    assert prompts.take_events().evictions == {"pressure": 2}
