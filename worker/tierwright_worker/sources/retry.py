"""Decides how long to wait before the next try, and when to give up."""

import email.utils
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a request is tried again without a single new byte, and how long is waited in between, in seconds."""

    tries: int = 8
    first_wait: float = 1.0
    longest_wait: float = 60.0
    longest_asked: float = 600.0  # what the other side may ask for at most

    def wait(self, failures: int, asked: float | None, jitter: float) -> float | None:
        """Seconds until the next try after `failures` in a row; None to give up. `jitter`: from 0 to 1, drawn by the caller.

        What the other side asks for (Retry-After) is kept, up to `longest_asked`: trying earlier is what gets clients
        banned. Without it the wait doubles, less up to a half by chance, so that many pods do not come back at once.
        """
        if failures >= self.tries:
            return None
        if asked is not None:
            return min(max(asked, 0.0), self.longest_asked)
        return float(min(self.first_wait * 2 ** (failures - 1), self.longest_wait) * (1 - jitter / 2))


def retry_after(header: str | None, now: float) -> float | None:
    """Seconds to wait, out of a Retry-After header: seconds or a date (RFC 9110 §10.2.3). `now`: seconds since 1970."""
    if header is None:
        return None
    text = header.strip()
    if text.isdecimal():
        return float(text)
    try:
        return max(email.utils.parsedate_to_datetime(text).timestamp() - now, 0.0)
    except ValueError:
        return None
