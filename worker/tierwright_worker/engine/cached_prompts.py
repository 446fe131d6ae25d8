"""Keeps the computed beginnings of prompts: asks the index what is known, copies pages into slots and out of them.

The index decides (policies/prompt_cache.py); what a page is made of, `PageCopies` alone knows.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tierwright_worker.engine.interface import CacheSettings, PageRef, PageTier, Slot
from tierwright_worker.engine.policies.breakpoints import Breakpoint, CacheUsage, cache_usage, page_lifetimes
from tierwright_worker.engine.policies.prompt_cache import PromptCacheIndex, cache_salt, page_keys

Page = Any  # whatever holds the keys and values of `page_tokens` positions


class PageCopies(Protocol):
    """Copies between slots and pages; positions count from 0 in the slot."""

    def save(self, slot: Slot, start: int) -> Page:
        """A page on the device with what the slot holds from `start` on."""
        ...

    def restore(self, page: Page, slot: Slot, start: int) -> None:
        """Write a page, of either level, into the slot from `start` on."""
        ...

    def to_host(self, page: Page) -> Page:
        """The page in host memory."""
        ...


@dataclass(frozen=True, slots=True)
class CacheEvents:
    """What happened since the last look, for metrics: prompt tokens looked up and found, pages forgotten by reason."""

    queries: int
    hits: Mapping[str, int]
    evictions: Mapping[str, int]


NO_CACHE_EVENTS = CacheEvents(0, {}, {})


class CachedPrompts:
    """The prompt cache of one engine. `engine` names all that pages depend on: weights, dtypes, layout."""

    def __init__(self, settings: CacheSettings, copies: PageCopies, engine: str) -> None:
        self._settings = settings
        self._copies = copies
        self._engine = engine
        self._index = PromptCacheIndex(settings)
        self._pages: dict[PageRef, Page] = {}
        self._queries = 0
        self._hits: Counter[str] = Counter()
        self._evictions: Counter[str] = Counter()

    @property
    def page_tokens(self) -> int:
        """Tokens of a page."""
        return self._settings.page_tokens

    def keys(self, tokens: Sequence[int], tenant: str) -> tuple[bytes, ...]:
        """The keys of a prompt's full pages; compute them once per request."""
        salt = cache_salt(self._engine, tenant)
        return page_keys(tokens, page_tokens=self._settings.page_tokens, salt=salt)

    def found(self, keys: Sequence[bytes], prompt_tokens: int, *, now: float) -> int:
        """Leading tokens that `restore` would supply now; the last token is always left to compute."""
        return self._index.match(self._usable(keys, prompt_tokens), now=now).tokens

    def restore(self, keys: Sequence[bytes], prompt_tokens: int, slot: Slot, *, now: float) -> int:
        """Copy what is known of a prompt into its slot; the tokens that need not be computed."""
        found = self._index.use(self._usable(keys, prompt_tokens), now=now)
        for place, ref in enumerate(found.pages):
            self._copies.restore(self._pages[ref], slot, place * self._settings.page_tokens)
            self._hits[str(ref.tier)] += self._settings.page_tokens
        self._queries += prompt_tokens
        return found.tokens

    def store(
        self,
        keys: Sequence[bytes],
        prompt_tokens: int,
        slot: Slot,
        breakpoints: Sequence[Breakpoint] | None,
        *,
        read: int,
        now: float,
    ) -> CacheUsage:
        """Keep the pages of a prompt that its slot holds; `read` is what `restore` supplied. The usage of the prompt.

        breakpoints: None keeps all full pages for the settings' ttl.
        """
        page_tokens = self._settings.page_tokens
        points = (Breakpoint(prompt_tokens, self._settings.ttl),) if breakpoints is None else breakpoints
        lifetimes = page_lifetimes(prompt_tokens, page_tokens, points)
        wanted = keys[: len(lifetimes)]
        change = self._index.insert(wanted, now=now, lifetimes=lifetimes)
        for move in change.moves:
            if move.source is None:
                page = self._copies.save(slot, move.page * page_tokens)
                self._pages[move.target] = self._copies.to_host(page) if _on_host(move.target) else page
            else:
                self._pages[move.target] = self._copies.to_host(self._pages.pop(move.source))
        self._evictions.update(change.evicted)
        kept = len(self._index.match(wanted, now=now).pages)
        return cache_usage(prompt_tokens, page_tokens, read, lifetimes[:kept])

    @property
    def levels(self) -> Mapping[str, int]:
        """Pages in use, by level; may be asked from another thread."""
        return {str(tier): pages for tier, pages in self._index.pages.items()}

    def take_events(self) -> CacheEvents:
        """What happened since the last call."""
        events = CacheEvents(self._queries, dict(self._hits), dict(self._evictions))
        self._queries = 0
        self._hits.clear()
        self._evictions.clear()
        return events

    def _usable(self, keys: Sequence[bytes], prompt_tokens: int) -> Sequence[bytes]:
        return keys[: max(0, prompt_tokens - 1) // self._settings.page_tokens]


def _on_host(ref: PageRef) -> bool:
    return ref.tier is PageTier.HOST
