"""What comes of reading pods' figures over HTTP, by either source: values, faults, and the bounds that both keep."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import aiohttp

from tierwright.observe.metrics import MetricsPage, PageRefusedError

_CHUNK: Final = 64 * 1024


class ScrapeFault(StrEnum):
    """Why a pod gave no page."""

    UNREACHABLE = "Unreachable"
    """No connection, or it broke."""
    TIMED_OUT = "TimedOut"
    REFUSED = "Refused"
    """Another status than 200."""
    TOO_LARGE = "TooLarge"
    NOT_TRUSTED = "NotTrusted"
    """Its certificate is not one of the authority that was set."""
    NO_ADDRESS = "NoAddress"
    """The pod has no address yet."""
    NOT_SCRAPED = "NotScraped"
    """The Prometheus server that is read in place of pods has no sample of it."""


@dataclass(frozen=True, slots=True)
class Target:
    """One pod to read; ``uid`` tells it from another pod of the same address later."""

    uid: str
    host: str
    """IP address; empty when the pod has none."""
    port: int


@dataclass(frozen=True, slots=True)
class Scraped:
    """What came of one reading; ``at`` is when it ended, on the clock that was given."""

    at: float
    page: MetricsPage | None
    fault: ScrapeFault | None = None
    words: str = ""
    """The fault in words."""
    age: float = 0.0
    """Seconds between the page and its reading, where another had taken it before."""


def bearer(token_file: str) -> Mapping[str, str]:
    """The header with the file's token; none where it cannot be read: the answer then says that one is missing."""
    if not token_file:
        return {}
    try:
        token = Path(token_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return {}
    return {"Authorization": f"Bearer {token}"} if token else {}


async def body_of(answer: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """The whole body. Raises PageRefusedError as soon as it has more bytes."""
    body = bytearray()
    async for chunk in answer.content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > most_bytes:
            raise PageRefusedError(f"an answer of more than {most_bytes:,} bytes")
    return bytes(body)


def fault_of(error: Exception, timeout: float) -> tuple[ScrapeFault, str]:
    """The fault that an exception of a request means, and its words; `timeout` in seconds is the bound that was set."""
    match error:
        case TimeoutError():
            return ScrapeFault.TIMED_OUT, f"no whole answer within {timeout:g} s"
        case PageRefusedError():
            return ScrapeFault.TOO_LARGE, str(error)
        case aiohttp.ClientResponseError():
            return ScrapeFault.REFUSED, error.message or f"status {error.status}"
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            return ScrapeFault.NOT_TRUSTED, str(error)
    return ScrapeFault.UNREACHABLE, f"{type(error).__name__}: {error}"
