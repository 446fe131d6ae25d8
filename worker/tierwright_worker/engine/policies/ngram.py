"""Guesses what comes next by looking up the newest tokens among all that the request has seen so far.

The method is prompt lookup (n-gram speculation) with three refinements, each O(1) per token: among the places where the
newest tokens stood before, the one whose past agrees longest is followed; where nothing matches, the guess goes on
behind the place that was followed last, so that a replaced word does not end a copy; the index grows token by token and
no text is scanned again.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class NgramLimits:
    """`shortest`: tokens that must agree before a place is followed. `longest`: agreement up to which places are told
    apart. `places`: remembered places per key, the newest ones. `resume`: tokens in a row that may disagree before a
    place is given up."""

    shortest: int = 2
    longest: int = 16
    places: int = 4
    resume: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest:
            raise ValueError(
                f"n-gram lengths: need 1 <= shortest <= longest, got {self.shortest}, {self.longest}"
            )
        if self.places < 1 or self.resume < 0:
            raise ValueError(f"n-gram: need places >= 1 and resume >= 0, got {self.places}, {self.resume}")


DEFAULT_LIMITS = NgramLimits()


class NgramDrafter:
    """Every token of one request, where each run of `shortest` tokens stood, and the place that is followed."""

    def __init__(self, limits: NgramLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._tokens: list[int] = []
        self._places: dict[tuple[int, ...], deque[int]] = {}
        self._followed: int | None = None
        self._agreed = 0
        self._disagreed = 0

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def agreed(self) -> int:
        """Tokens that agree before the place that is followed, up to `longest`; below `shortest`: it only goes on."""
        return self._agreed

    def extend(self, tokens: Sequence[int]) -> None:
        """Add tokens that are certain. How they are cut into calls does not matter."""
        for token in tokens:
            self._index_newest()
            self._follow(token)
            self._tokens.append(token)
            # A place that goes on to agree was the best and still is; others are looked for only when it fails.
            if self._agreed < self._limits.shortest:
                self._look_up()

    def propose(self, limit: int) -> tuple[int, ...]:
        """At most `limit` tokens that may follow: a copy from the followed place, round again where it meets its end."""
        if self._followed is None or limit < 1:
            return ()
        source = self._tokens[self._followed : self._followed + limit]
        return tuple(source[offset % len(source)] for offset in range(limit))

    def _follow(self, token: int) -> None:
        """Go one token further along the followed place, or give it up after too many that differ."""
        if self._followed is None:
            return
        if self._tokens[self._followed] == token:
            self._agreed = min(self._agreed + 1, self._limits.longest)
            self._disagreed = 0
        else:
            self._agreed = 0
            self._disagreed += 1
        self._followed = self._followed + 1 if self._disagreed <= self._limits.resume else None

    def _index_newest(self) -> None:
        """Index the run that ends with the newest token; only now, for it has a continuation only now."""
        shortest = self._limits.shortest
        if len(self._tokens) >= shortest:
            key = tuple(self._tokens[-shortest:])
            self._places.setdefault(key, deque(maxlen=self._limits.places)).append(len(self._tokens))

    def _look_up(self) -> None:
        """Follow the place whose past agrees longest with the newest tokens, the newest one among equals."""
        key = tuple(self._tokens[-self._limits.shortest :])
        places = self._places.get(key)
        if places is not None:
            self._agreed, self._followed = max((self._agreement(place), place) for place in places)
            self._disagreed = 0

    def _agreement(self, place: int) -> int:
        """How many tokens before `place` equal the newest ones, up to `longest`; at least `shortest` do."""
        tokens = self._tokens
        agreed = self._limits.shortest
        most = min(self._limits.longest, place)
        while agreed < most and tokens[place - 1 - agreed] == tokens[-1 - agreed]:
            agreed += 1
        return agreed
