"""Decides which pages of keys and values are kept, where, and which must go; the arrays themselves lie elsewhere."""

import heapq
from array import array
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from tierwright_worker.engine.interface import (
    CacheChange,
    CacheMatch,
    CacheMove,
    CacheSettings,
    PageRef,
    PageTier,
)

EXPIRED = "ttl"
PRESSURE = "pressure"


def cache_salt(engine: str, tenant: str = "") -> bytes:
    """What keeps chains apart: `engine` (weights, dtypes, layout) and `tenant`; no two pairs give the same bytes."""
    parts = [part.encode("utf-8", "surrogatepass") for part in (engine, tenant)]
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def page_keys(tokens: Sequence[int], *, page_tokens: int, salt: bytes) -> tuple[bytes, ...]:
    """One SHA-256 per full page of `page_tokens` tokens (ids below 2**63), each over the one before it."""
    keys = []
    previous = sha256(salt).digest()
    for start in range(0, len(tokens) - page_tokens + 1, page_tokens):
        page = array("q", tokens[start : start + page_tokens])
        previous = sha256(previous + page.tobytes()).digest()
        keys.append(previous)
    return tuple(keys)


@dataclass
class _Entry:
    place: PageRef
    lifetime: float
    expires: float


class PromptCacheIndex:
    """Which pages lie where: least recently used go from device to host, and from there for good.

    Pages are used from the last to the first, so a page is always more recent than those that follow it: what is
    dropped for lack of room, or because its time is over, never leaves a page behind that needed it. `now` never falls.
    """

    def __init__(self, settings: CacheSettings) -> None:
        if (
            settings.page_tokens < 1
            or settings.device_pages < 0
            or settings.host_pages < 0
            or settings.ttl <= 0
        ):
            raise ValueError(f"page_tokens and ttl must be positive, page counts not negative: {settings}")
        self._settings = settings
        self._entries: dict[bytes, _Entry] = {}
        self._recent: dict[PageTier, OrderedDict[bytes, None]] = {tier: OrderedDict() for tier in PageTier}
        self._free = {
            PageTier.DEVICE: list(range(settings.device_pages - 1, -1, -1)),
            PageTier.HOST: list(range(settings.host_pages - 1, -1, -1)),
        }
        self._ends: list[tuple[float, bytes]] = []

    @property
    def pages(self) -> Mapping[PageTier, int]:
        """Pages in use by tier, those that have expired but were not yet forgotten included."""
        return {tier: len(recent) for tier, recent in self._recent.items()}

    def match(self, keys: Sequence[bytes], *, now: float) -> CacheMatch:
        """The longest prefix of `keys` that is present and not expired; changes nothing."""
        pages = []
        for key in keys:
            entry = self._entries.get(key)
            if entry is None or entry.expires <= now:
                break
            pages.append(entry.place)
        return CacheMatch(tuple(pages), len(pages) * self._settings.page_tokens)

    def use(self, keys: Sequence[bytes], *, now: float) -> CacheMatch:
        """As `match`, and what was found lives on for its lifetime from `now`, which is when the request began."""
        found = self.match(keys, now=now)
        self._touch(keys[: len(found.pages)], now)
        return found

    def insert(
        self, keys: Sequence[bytes], *, now: float, lifetimes: Sequence[float] | None = None
    ) -> CacheChange:
        """Record the pages of `keys`, of which the slot holds the contents; what finds no room is left out, from the end.

        lifetimes: seconds per key; a page that others follow lives at least as long as they do. ValueError when their
        number is not that of the keys.
        """
        seconds = self._lifetimes(keys, lifetimes)
        evicted = Counter(self.expire(now=now).evicted)
        moves: list[CacheMove] = []
        # First, so that what is looked for to make room comes before them.
        self.use(keys, now=now)
        mine = set(keys)
        kept = 0
        for page, key in enumerate(keys):
            if not self._place(key, page, mine, moves, evicted):
                break
            kept += 1
        for key, lifetime in zip(keys[:kept], seconds, strict=False):
            self._entries[key].lifetime = max(self._entries[key].lifetime, lifetime)
        self._touch(keys[:kept], now)
        return CacheChange(tuple(moves), dict(evicted))

    def expire(self, *, now: float) -> CacheChange:
        """Forget what has outlived its lifetime."""
        count = 0
        while self._ends and self._ends[0][0] <= now:
            _, key = heapq.heappop(self._ends)
            entry = self._entries.get(key)
            # An entry may have been dropped, or used again since; then a later end is in the heap as well.
            if entry is not None and entry.expires <= now:
                self._drop(key)
                count += 1
        return CacheChange((), {EXPIRED: count} if count else {})

    def _lifetimes(self, keys: Sequence[bytes], lifetimes: Sequence[float] | None) -> list[float]:
        if lifetimes is None:
            return [self._settings.ttl] * len(keys)
        if len(lifetimes) != len(keys):
            raise ValueError(f"{len(keys)} pages need as many lifetimes, got {len(lifetimes)}")
        longest = 0.0
        seconds = []
        for lifetime in reversed(lifetimes):
            longest = max(longest, lifetime)
            seconds.append(longest)
        return seconds[::-1]

    def _touch(self, keys: Sequence[bytes], now: float) -> None:
        for key in reversed(keys):
            entry = self._entries[key]
            entry.expires = now + entry.lifetime
            heapq.heappush(self._ends, (entry.expires, key))
            self._recent[entry.place.tier].move_to_end(key)
        # Each use leaves an outdated end behind; they are swept before they outnumber the entries.
        if len(self._ends) > 4 * len(self._entries) + 64:
            self._ends = [(entry.expires, key) for key, entry in self._entries.items()]
            heapq.heapify(self._ends)

    def _place(
        self, key: bytes, page: int, mine: set[bytes], moves: list[CacheMove], evicted: Counter[str]
    ) -> bool:
        """Bring a page to the device, or to the host where the device is full of pages of this very prompt."""
        entry = self._entries.get(key)
        if entry is not None and entry.place.tier is PageTier.DEVICE:
            return True
        index = self._room_on_device(mine, moves, evicted)
        if index is not None:
            target = PageRef(PageTier.DEVICE, index)
        elif entry is not None:
            return True
        else:
            index = self._room_on_host(mine, evicted)
            if index is None:
                return False
            target = PageRef(PageTier.HOST, index)
        lifetime = 0.0
        if entry is not None:
            lifetime = entry.lifetime
            self._drop(key)
        moves.append(CacheMove(key, page, None, target))
        self._record(key, _Entry(target, lifetime, 0.0))
        return True

    def _room_on_device(self, mine: set[bytes], moves: list[CacheMove], evicted: Counter[str]) -> int | None:
        free = self._free[PageTier.DEVICE]
        if free:
            return free.pop()
        victim = self._oldest(PageTier.DEVICE, mine)
        if victim is None:
            return None
        entry = self._entries[victim]
        index = self._room_on_host(mine, evicted)
        self._drop(victim)
        if index is None:
            evicted[PRESSURE] += 1
        else:
            target = PageRef(PageTier.HOST, index)
            moves.append(CacheMove(victim, 0, entry.place, target))
            self._record(victim, _Entry(target, entry.lifetime, entry.expires))
        return self._free[PageTier.DEVICE].pop()

    def _room_on_host(self, mine: set[bytes], evicted: Counter[str]) -> int | None:
        free = self._free[PageTier.HOST]
        if not free:
            victim = self._oldest(PageTier.HOST, mine)
            if victim is None:
                return None
            self._drop(victim)
            evicted[PRESSURE] += 1
        return free.pop()

    def _oldest(self, tier: PageTier, mine: set[bytes]) -> bytes | None:
        return next((key for key in self._recent[tier] if key not in mine), None)

    def _record(self, key: bytes, entry: _Entry) -> None:
        self._entries[key] = entry
        self._recent[entry.place.tier][key] = None

    def _drop(self, key: bytes) -> None:
        entry = self._entries.pop(key)
        del self._recent[entry.place.tier][key]
        self._free[entry.place.tier].append(entry.place.index)
