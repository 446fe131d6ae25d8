"""Binds kopf to the store and the queue; the only file that knows kopf.

kopf lists and watches, and each event becomes "put it into the store, mark the tier dirty", which cannot fail. It keeps
no progress, writes no annotation or finalizer, posts no Events and serves no health page. When kopf ends, it cancels
all tasks of its event loop that are younger than itself, and it takes over the process's signals: therefore it runs in
a thread with a loop of its own, and hands events over to ours.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import aiohttp
import kopf

from tierwright.control.kinds import WATCHED, Watched
from tierwright.kube.resources import Object, ResourceKind
from tierwright.observe.store import Store, TierKey

log = logging.getLogger(__name__)

READ_BUFFER: Final = 2**21
"""Bytes; one line of a watch holds a whole object."""
STOP_SECONDS: Final = 4.0
"""How long a stop waits for kopf's thread, a daemon that holds nothing that would be lost."""
_LOGGERS_OF_TASKS: Final = ("kopf._core.reactor.running", "kopf._core.reactor.orchestration")
LOGIN_MEMORY: Final = 120.0
LONGEST_LOGIN_PAUSE: Final = 30.0
_IDENTITY: Final[Any] = "tierwright"
"""kopf would else ask for the user's name, which a uid that a platform gives at run time (OpenShift) does not have."""


class Identity(Protocol):
    """What a session of kopf's needs; see kube.client.Connection."""

    @property
    def server(self) -> str:
        """URL of the API server."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers with the credentials."""

    @property
    def ssl_context(self) -> Any:
        """The TLS context that trusts the cluster."""

    @property
    def proxy(self) -> str | None:
        """URL of a proxy."""


class WatchesEndedError(Exception):
    """The watches ended although the operator goes on; the message says why."""


class _FailureFilter(logging.Filter):
    """Takes the records in which kopf says that one of its tasks failed, and makes one line of each.

    kopf does not always end then: what it still waits for may have gone with the task.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        """``tell`` gets the line, in kopf's thread."""
        super().__init__()
        self._tell = tell

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is to be written as it is."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return True
        self._tell(f"{record.getMessage().partition(' has failed')[0]}: {_cause(error)}")
        return False


@contextlib.contextmanager
def _told_of_failures(tell: Callable[[str], None]) -> Iterator[None]:
    """``tell`` gets one line for each of kopf's tasks that fails meanwhile."""
    each_failure = _FailureFilter(tell)
    loggers = [logging.getLogger(name) for name in _LOGGERS_OF_TASKS]
    for each in loggers:
        each.addFilter(each_failure)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(each_failure)


def _cause(error: BaseException) -> str:
    """The error on one line; kopf's own carry the server's whole answer behind the words that matter."""
    first = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


class Watches:
    """All watches. ``on_news`` gets the tiers to look at; ``identity`` gives fresh credentials when told so."""

    def __init__(
        self,
        store: Store,
        on_news: Callable[[set[TierKey]], None],
        identity: Callable[[bool], Coroutine[Any, Any, Identity]],
        *,
        on_listed: Callable[[], None],
        namespaces: Sequence[str],
        watched: Sequence[Watched] = WATCHED,
    ) -> None:
        """``on_listed`` is told when a watch lists; ``namespaces`` empty means all of them."""
        self._store = store
        self._on_news = on_news
        self._identity = identity
        self._on_listed = on_listed
        self._namespaces = tuple(namespaces)
        self._watched = watched
        self.running = False
        self._ended: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """kopf's own."""

    def interrupt(self, reason: str) -> None:
        """Ends the present run as if a watch had died; nothing happens when none runs."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(WatchesEndedError(reason))

    async def run(self) -> None:
        """Watch until cancelled, or until kopf ends.

        Raises WatchesEndedError: a watch died, so the store may have missed something; compare it and run again.
        """
        ours = asyncio.get_running_loop()
        ended = self._ended = ours.create_future()
        thread_ended = asyncio.Event()
        stop = threading.Event()

        def fail(why: str) -> None:
            if not ended.done():
                ended.set_exception(WatchesEndedError(why))

        def finish(why: str) -> None:
            thread_ended.set()
            fail(why)

        def tell(act: Callable[[str], None], why: str) -> None:
            with contextlib.suppress(RuntimeError):  # our loop is closed: the process ends
                ours.call_soon_threadsafe(act, why)

        def watch() -> None:
            why = "kopf ended without saying why"
            try:
                asyncio.run(self._kopf(ours, stop))
            except BaseException as error:
                why = _cause(error)
            finally:
                tell(finish, why)

        thread = threading.Thread(target=watch, name="kopf", daemon=True)
        with _told_of_failures(lambda why: tell(fail, why)):
            thread.start()
            try:
                await ended
            finally:
                self.running = False
                stop.set()
                await self._see_it_end(thread_ended)

    async def _see_it_end(self, thread_ended: asyncio.Event) -> None:
        """Waits for kopf's thread; one that does not end when it is told to has its loop stopped."""
        for force in (False, True):
            with contextlib.suppress(TimeoutError, RuntimeError):
                if force and self._loop is not None:
                    self._loop.call_soon_threadsafe(self._loop.stop)
                async with asyncio.timeout(STOP_SECONDS / 2):
                    await thread_ended.wait()
                    return

    async def _kopf(self, ours: asyncio.AbstractEventLoop, stop: threading.Event) -> None:
        """The life of kopf, in a loop and a thread of its own."""
        self._loop = asyncio.get_running_loop()
        # What is left over when kopf ends has no one to tell: each piece would be a traceback in the log.
        self._loop.set_exception_handler(lambda _, context: log.debug("kopf left over: %s", context))
        # It would warn that it cannot take the process's signals, which is the point of its own thread.
        logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
        registry = kopf.OperatorRegistry()
        self._bind_login(registry, ours)
        for each in self._watched:
            self._bind_events(registry, each.kind, ours)

        def started(**_: Any) -> None:
            ours.call_soon_threadsafe(self._note_started)

        kopf.on.startup(registry=registry, id="tell-started")(started)
        await kopf.operator(
            registry=registry,
            settings=kopf_settings(self._watched),
            identity=_IDENTITY,
            standalone=True,
            clusterwide=not self._namespaces,
            namespaces=self._namespaces,
            stop_flag=stop,
        )

    def _note_started(self) -> None:
        self.running = True
        log.info("watching %s", ", ".join(each.kind.plural for each in self._watched))

    def _bind_login(self, registry: kopf.OperatorRegistry, ours: asyncio.AbstractEventLoop) -> None:
        logins: list[float] = []

        async def login(**_: Any) -> kopf.AiohttpSession:
            # kopf asks again at once after each 401; credentials that stay refused must not become a storm.
            recent = [each for each in logins if each > time.monotonic() - LOGIN_MEMORY]
            await asyncio.sleep(min(2.0 ** (len(recent) - 1), LONGEST_LOGIN_PAUSE) if recent else 0.0)
            request = asyncio.run_coroutine_threadsafe(self._identity(bool(logins)), ours)
            identity = await asyncio.wrap_future(request)
            logins[:] = [*recent, time.monotonic()]
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=identity.ssl_context),
                headers=dict(identity.headers),
                proxy=identity.proxy,
                read_bufsize=READ_BUFFER,
            )
            return kopf.AiohttpSession(server=identity.server, aiohttp_session=session)

        kopf.on.login(registry=registry, id="same-identity")(login)

    def _bind_events(
        self, registry: kopf.OperatorRegistry, kind: ResourceKind, ours: asyncio.AbstractEventLoop
    ) -> None:
        async def on_event(event: Any, **_: Any) -> None:
            ours.call_soon_threadsafe(self.take, kind, event.get("type"), event["object"])

        kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=f"observe-{kind.plural}")(
            on_event
        )

    def take(self, kind: ResourceKind, event_type: str | None, obj: Object) -> None:
        """Puts one event into the store and marks the tiers that it matters to; runs in our loop.

        An object without an event type was listed. kopf lists at the start, and again without a word when the server
        does not remember where a watch was, as after its restart; what was deleted meanwhile is in no event.
        """
        if event_type is None:
            self._on_listed()
        keys = self._store.delete(kind, obj) if event_type == "DELETED" else self._store.put(kind, obj)
        if keys:
            self._on_news(keys)


def kopf_settings(watched: Sequence[Watched]) -> kopf.OperatorSettings:
    """kopf's settings; each one stands against a failure that operators have had."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = (
        True  # no watches on all namespaces and CRDs: the role would have to allow them
    )
    settings.process.ultimate_exiting_timeout = None  # else SIGKILL ten minutes after a watch died
    # A watch behind a load balancer can go silent for ever: bounded, and bookmarks come once a minute.
    settings.watching.server_timeout = 240
    settings.watching.client_timeout = 300
    settings.watching.connect_timeout = 10
    settings.watching.inactivity_timeout = 70
    settings.watching.chunk_size = 200
    settings.networking.request_timeout = 15
    settings.networking.connect_timeout = 5
    settings.networking.enforce_retry_after = True
    settings.networking.error_backoffs = (1, 2, 4, 8)
    settings.queueing.worker_limit = None
    settings.queueing.idle_timeout = 1
    settings.queueing.exit_timeout = 0.5
    for each in watched:
        if each.label_selector:
            key = (each.kind.group, each.kind.version, each.kind.plural)
            settings.watching.label_selectors[key] = each.label_selector
    return settings
