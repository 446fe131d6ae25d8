"""Decides whether a JSON body holds more values than are read: tiny ones take some twenty times their text in memory.

Counted before anything is parsed, by what stands between values: a comma, or what opens a list, or an object, which takes
as much as four others. What stands in strings does not count, so that a long text is one value.
"""

from typing import Final

MOST_VALUES: Final = 1 << 20
"""As many as the tokens that are counted in one request; the largest such body takes less than 200 MiB to hold."""
_BETWEEN: Final = ((b",", 1), (b"[", 1), (b"{", 4))


def has_too_many_values(body: bytes, most: int = MOST_VALUES) -> bool:
    """Whether a body has more than `most` values, objects counted four times; of one that is no JSON it may say either."""
    if _between(body, 0, len(body)) <= most:
        return False
    # In this order: what is left of a backslash that was escaped itself is no escape of the quote behind it.
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    # Each value may be a string, and may have a name.
    if plain.count(b'"') > 4 * (most + 1):
        return True
    found, at = 0, 0
    while found <= most:
        opens = plain.find(b'"', at)
        if opens < 0:
            return found + _between(plain, at, len(plain)) > most
        found += _between(plain, at, opens)
        closes = plain.find(b'"', opens + 1)
        if closes < 0:
            return found > most
        at = closes + 1
    return True


def _between(text: bytes, start: int, end: int) -> int:
    return sum(weight * text.count(mark, start, end) for mark, weight in _BETWEEN)
