"""Reads the pods' figures from a Prometheus server that scrapes them, in place of the pods; the same values come out.

One instant query fetches the newest sample of each wanted family of many pods, and when it was taken. A pod is known by the
label `instance`, which is its address and port unless a relabelling changed it.
"""

import asyncio
import json
import math
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Any, Final

import aiohttp

from tierwright.observe import metric_names as names
from tierwright.observe.metrics import PageRefusedError, parse
from tierwright.observe.readings import Scraped, ScrapeFault, Target, bearer, body_of, fault_of

SAMPLED_AT: Final = "tierwright_sampled_at"
"""Name under which the query answers when a pod's page was read."""
_NOT_OF_THE_ENGINE: Final = ("__name__", "instance", "job")
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """Where the server is, and the bounds of a reading.

    ``url`` is its root, such as ``http://prometheus.monitoring.svc:9090``. ``matchers`` are further label matchers, as
    PromQL writes them, for a server that holds several clusters: ``cluster="east"``. ``timeout`` in seconds, for all of one
    reading. The token of ``token_file`` is sent as bearer and read anew each time.
    """

    url: str
    matchers: str = ""
    token_file: str = ""
    timeout: float = 7.0
    pods_at_once: int = 50
    """Pods of one query; a pod has about 200 series."""
    most_bytes: int = 64 * 1024 * 1024
    """Longest answer that is read."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """What the server holds of one pod: when it was sampled (its clock), how old that is, and the page that it makes."""

    taken: float
    age: float
    text: str


class AnswerError(ValueError):
    """The server's answer is none that PromQL's API gives; the message says what it was."""


class PrometheusSource:
    """Reads pods as `Scraper` does; made inside the running event loop, closed by ``close`` or as a context manager."""

    def __init__(
        self,
        settings: PrometheusSettings,
        tls: ssl.SSLContext | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """With ``tls`` the server must show a certificate of that authority; ``clock`` dates what was read."""
        self._settings = settings
        self._clock = clock
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=True if tls is None else tls),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=settings.timeout),
        )
        self._dated: dict[str, tuple[float, float]] = {}
        """By uid: when the last sample was taken by the server's clock, and by ours."""

    async def __aenter__(self) -> "PrometheusSource":
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
        """The newest sample of each target, by uid; raises nothing for what the server does.

        ``at`` is when Prometheus took the sample. It is the same in the next reading while there is no newer one.
        """
        wanted = list(targets)
        found: dict[str, Scraped] = {
            target.uid: Scraped(self._clock(), None, ScrapeFault.NO_ADDRESS, "the pod has no address")
            for target in wanted
            if not target.host
        }
        asked = [target for target in wanted if target.host]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._read_some(batch))
                for batch in _batches(asked, self._settings.pods_at_once)
            ]
        for task in tasks:
            found |= task.result()
        live = {target.uid for target in wanted}
        self._dated = {uid: dated for uid, dated in self._dated.items() if uid in live}
        return found

    async def _read_some(self, targets: Sequence[Target]) -> dict[str, Scraped]:
        instances = {instance_of(target): target for target in targets}
        fault, words = ScrapeFault.UNREACHABLE, ""
        began = self._clock()
        try:
            document = await self._ask(query_for(instances, self._settings.matchers))
            if (took := self._clock() - began) > self._settings.timeout:
                # The process stood still while the answer waited, so that its ages are of another time.
                raise TimeoutError(f"{took:g} s")
            samples = samples_of(document)
        except AnswerError as error:
            fault, words = ScrapeFault.REFUSED, str(error)
        except (aiohttp.ClientError, OSError, PageRefusedError) as error:  # a TimeoutError is an OSError
            fault, words = fault_of(error, self._settings.timeout)
        if words:
            told = f"the Prometheus server: {words}"
            return {target.uid: Scraped(self._clock(), None, fault, told) for target in targets}
        return {
            target.uid: self._scraped(target, instance, samples.get(instance))
            for instance, target in instances.items()
        }

    def _scraped(self, target: Target, instance: str, sample: _Sample | None) -> Scraped:
        if sample is None:
            words = f"the Prometheus server has no sample of instance {instance}: does it scrape the pod?"
            return Scraped(self._clock(), None, ScrapeFault.NOT_SCRAPED, words)
        at = self._dated_here(target.uid, sample)
        try:
            return Scraped(at, parse(sample.text), age=sample.age)
        except PageRefusedError as error:
            return Scraped(at, None, ScrapeFault.TOO_LARGE, str(error))

    def _dated_here(self, uid: str, sample: _Sample) -> float:
        """When the sample was taken by our clock; the time between two samples is exactly what it was by the server's."""
        before = self._dated.get(uid)
        if before is None or sample.taken < before[0]:
            at = self._clock() - sample.age
        else:
            at = before[1] + (sample.taken - before[0])
        self._dated[uid] = (sample.taken, at)
        return at

    async def _ask(self, query: str) -> Any:
        url = f"{self._settings.url.rstrip('/')}/api/v1/query"
        headers = bearer(self._settings.token_file)
        async with self._session.post(
            url, data={"query": query}, headers=headers, allow_redirects=False
        ) as answer:
            body = await body_of(answer, self._settings.most_bytes)
            if answer.status != _OK:
                words = f"status {answer.status}: {body[:200].decode('utf-8', errors='replace')}"
                raise aiohttp.ClientResponseError(
                    answer.request_info, (), status=answer.status, message=words
                )
        try:
            return json.loads(body)
        except ValueError as error:
            raise AnswerError(f"an answer that is no JSON: {error}") from None


def instance_of(target: Target) -> str:
    """The label `instance` that Prometheus gives to a pod."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    return f"{host}:{target.port}"


def query_for(instances: Iterable[str], matchers: str = "") -> str:
    """The PromQL of one reading: every wanted family of these instances, and when the pod was sampled."""
    some = "|".join(_escaped(instance) for instance in instances)
    selector = f'instance=~"{some}"' + (f", {matchers}" if matchers else "")
    families = "|".join(names.ALL)
    return (
        f'{{__name__=~"{families}", {selector}}} or on (__name__) '
        f'label_replace(timestamp({names.RUNNING[0]}{{{selector}}}), "__name__", "{SAMPLED_AT}", "", "")'
    )


def samples_of(document: Any) -> Mapping[str, _Sample]:
    """By instance, from an answer; of an instance that two jobs scrape the newer counts.

    Raises AnswerError when it is no answer of an instant query.
    """
    try:
        series = document["data"]["result"]
        told = [(each["metric"], float(each["value"][0]), str(each["value"][1])) for each in series]
        grouped: dict[tuple[str, str], list[tuple[Mapping[str, str], str]]] = {}
        taken: dict[tuple[str, str], tuple[float, float]] = {}
        for labels, now, value in told:
            key = (labels["instance"], labels.get("job", ""))
            if labels["__name__"] == SAMPLED_AT:
                at = float(value)
                taken[key] = max(taken.get(key, (-math.inf, 0.0)), (at, max(0.0, now - at)))
            else:
                grouped.setdefault(key, []).append((labels, value))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise AnswerError(f"an answer of another kind: {type(error).__name__} {error}") from None
    found: dict[str, _Sample] = {}
    for key, (at, age) in sorted(taken.items(), key=lambda item: item[1][0]):
        found[key[0]] = _Sample(
            at, age, "".join(_line(labels, value) for labels, value in grouped.get(key, ()))
        )
    return found


def _line(labels: Mapping[str, str], value: str) -> str:
    """The series as a metrics page has it."""
    own = ",".join(
        f'{name}="{_unquoted(text)}"' for name, text in labels.items() if name not in _NOT_OF_THE_ENGINE
    )
    return f"{labels['__name__']}{{{own}}} {value}\n"


def _unquoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escaped(instance: str) -> str:
    """As part of a regular expression within a PromQL string: backslashes are read twice."""
    return "".join(f"\\\\{each}" if each in ".[]" else each for each in instance)


def server_authority(ca_file: str) -> ssl.SSLContext:
    """Trust in a server that shows a certificate of this authority for its own name.

    Raises OSError when the file cannot be read or holds no certificate.
    """
    return ssl.create_default_context(cafile=ca_file)


def _batches(targets: Sequence[Target], size: int) -> Iterator[Sequence[Target]]:
    rest = iter(targets)
    while batch := tuple(islice(rest, size)):
        yield batch
