"""Reads many pods' metrics pages at once: bounded in bytes, time and number, so that a pod that hangs harms nobody else."""

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import aiohttp

from tierwright.observe.metrics import MAX_PAGE, MetricsPage, parse
from tierwright.observe.readings import Scraped, ScrapeFault, Target, bearer, body_of, fault_of

_OK: Final = 200
_PLAIN: Final = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity"}


@dataclass(frozen=True, slots=True)
class ScrapeSettings:
    """Bounds of a reading, and how pods are spoken to.

    ``timeout`` in seconds, from the first byte sent to the last one read. The token of ``token_file`` is sent as bearer;
    the file is read anew each time, since tokens are replaced.
    """

    timeout: float = 3.0
    budget: float = 7.0
    """Seconds for all pods together: a pod whose turn does not come within them counts as one that was too slow."""
    concurrency: int = 64
    most_bytes: int = MAX_PAGE
    path: str = "/metrics"
    token_file: str = ""


class Scraper:
    """Reads pages; made inside the running event loop, to be closed by ``close`` or as a context manager."""

    def __init__(
        self,
        settings: ScrapeSettings,
        tls: ssl.SSLContext | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """With ``tls`` from ``authority`` pods are read by TLS; ``clock`` dates what was read."""
        self._settings = settings
        self._clock = clock
        self._tls = tls
        self._session = aiohttp.ClientSession(
            # A pod is read once a tick, so connections are not kept: a dead peer could hang on to one unseen.
            connector=aiohttp.TCPConnector(
                limit=settings.concurrency, force_close=True, ssl=True if tls is None else tls
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,  # a small answer cannot become a large one
        )
        self._slow: Counter[str] = Counter()
        """Uids that did not answer in time, and how often in a row: they are read last."""

    async def __aenter__(self) -> "Scraper":
        """Nothing is opened before the first reading."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def read(self, targets: Iterable[Target]) -> Mapping[str, Scraped]:
        """One reading of each target, by uid; raises nothing for what pods do.

        Those that were slow the last time stand at the end of the queue, so that they keep no place from others.
        """
        ordered = sorted(targets, key=lambda target: self._slow[target.uid])
        places = asyncio.Semaphore(self._settings.concurrency)
        headers = {**_PLAIN, **bearer(self._settings.token_file)}
        until = asyncio.get_running_loop().time() + self._settings.budget

        async def one(target: Target) -> Scraped:
            if not target.host:
                return Scraped(self._clock(), None, ScrapeFault.NO_ADDRESS, "the pod has no address")
            try:
                async with asyncio.timeout_at(until), places:
                    return await self._read_one(target, headers)
            except TimeoutError:
                words = f"its turn did not come within {self._settings.budget:g} s"
                return Scraped(self._clock(), None, ScrapeFault.TIMED_OUT, words)

        async with asyncio.TaskGroup() as group:
            tasks = {target.uid: group.create_task(one(target)) for target in ordered}
        found = {uid: task.result() for uid, task in tasks.items()}
        late = {uid for uid, each in found.items() if each.fault is ScrapeFault.TIMED_OUT}
        self._slow = Counter({uid: self._slow[uid] + 1 for uid in late})
        return found

    async def _read_one(self, target: Target, headers: Mapping[str, str]) -> Scraped:
        page: MetricsPage | None = None
        fault: ScrapeFault | None = None
        words = ""
        began = self._clock()
        try:
            async with asyncio.timeout(self._settings.timeout):
                page = parse(await self._text(target, headers))
        except (aiohttp.ClientError, OSError, ValueError) as error:  # a TimeoutError is an OSError
            fault, words = fault_of(error, self._settings.timeout)
        ended = self._clock()
        if page is not None and (took := ended - began) > self._settings.timeout:
            # The process stood still, while the answer waited: what it tells is as old as that, and would read as a
            # time without any request.
            page, fault, words = None, *fault_of(TimeoutError(f"{took:g} s"), self._settings.timeout)
        return Scraped(ended, page, fault, words)

    async def _text(self, target: Target, headers: Mapping[str, str]) -> str:
        host = f"[{target.host}]" if ":" in target.host else target.host
        url = f"{'https' if self._tls is not None else 'http'}://{host}:{target.port}{self._settings.path}"
        async with self._session.get(url, headers=headers, allow_redirects=False) as answer:
            if answer.status != _OK:
                raise aiohttp.ClientResponseError(answer.request_info, (), status=answer.status)
            body = await body_of(answer, self._settings.most_bytes)
            return body.decode("utf-8", errors="replace")


def authority(ca_file: str) -> ssl.SSLContext:
    """Trust in pods that show a certificate of this authority; names are not compared, since pods are called by address.

    Raises OSError when the file cannot be read or holds no certificate.
    """
    context = ssl.create_default_context(cafile=ca_file)
    context.check_hostname = False
    return context
