"""An HTTP proxy on loopback before the API server that answers, delays or cuts single requests as it is told."""

import asyncio
import base64
import contextlib
import re
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import aiohttp
import yaml
from aiohttp import web

_DROPPED = {"Host", "Connection", "Transfer-Encoding", "Content-Length"}


@dataclass
class Fault:
    """What happens to requests of this method whose path and query match, the next ``times`` times.

    ``how``: ``answer`` gives ``status`` without asking the server; ``lose request`` closes the connection instead;
    ``lose answer`` lets the server do the work and closes the connection then; ``delay`` forwards after ``seconds``.
    """

    method: str
    path: str
    times: int
    how: Literal["answer", "lose request", "lose answer", "delay"] = "answer"
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    met: list[float] = field(default_factory=list)
    """When it struck, on the monotonic clock."""

    def strikes(self, method: str, path: str) -> bool:
        """Whether this request is one of them."""
        return len(self.met) < self.times and method == self.method and re.search(self.path, path) is not None


class FaultyApi:
    """The proxy; it listens on ``port`` of 127.0.0.1 in a thread of its own until ``close``."""

    def __init__(self, server: str, context: ssl.SSLContext) -> None:
        """Start to listen, and forward to ``server``."""
        self._server = server
        self._context = context
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._watches: set[asyncio.Transport] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self.port = 0
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._serve(),), daemon=True, name="faulty API"
        )
        self._thread.start()
        assert self._ready.wait(10)

    def inject(self, fault: Fault) -> Fault:
        """Let this happen from now on."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def cut_watches(self) -> int:
        """Closes all connections over which something is watched; how many there were."""
        with self._lock:
            victims = list(self._watches)
        for each in victims:
            self._loop.call_soon_threadsafe(each.abort)
        return len(victims)

    def close(self) -> None:
        """Stop listening."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self._context, limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
            self._session = session
            app = web.Application(client_max_size=2**26)
            app.router.add_route("*", "/{tail:.*}", self._handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = int(runner.addresses[0][1])
            self._ready.set()
            await self._stop.wait()
            await runner.cleanup()

    def _fault_of(self, request: web.Request) -> Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.strikes(request.method, request.path_qs):
                    fault.met.append(time.monotonic())
                    return fault
        return None

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        fault = self._fault_of(request)
        if fault is not None and fault.how == "answer":
            return web.json_response(_failure(fault.status), status=fault.status, headers=fault.headers)
        if fault is not None and fault.how == "lose request":
            return _cut(request)
        if fault is not None and fault.how == "delay":
            await asyncio.sleep(fault.seconds)
        headers = {name: value for name, value in request.headers.items() if name not in _DROPPED}
        async with self._session.request(
            request.method, self._server + request.path_qs, data=body or None, headers=headers
        ) as answer:
            if fault is not None and fault.how == "lose answer":
                await answer.read()
                return _cut(request)
            return await self._relay(request, answer)

    async def _relay(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        kept = {name: value for name, value in answer.headers.items() if name not in _DROPPED}
        response = web.StreamResponse(status=answer.status, headers=kept)
        await response.prepare(request)
        transport = request.transport
        is_watch = request.query.get("watch") in ("true", "1") and transport is not None
        if is_watch:
            assert transport is not None
            with self._lock:
                self._watches.add(transport)
        try:
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
        finally:
            if is_watch:
                assert transport is not None
                with self._lock:
                    self._watches.discard(transport)
        return response


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _failure(status: int) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": f"the proxy answers {status}",
        "reason": "InternalError",
        "code": status,
    }


@contextlib.contextmanager
def faulty_api(kubeconfig: Path, folder: Path) -> Iterator[tuple[FaultyApi, Path]]:
    """A proxy before the kubeconfig's API server, and a kubeconfig that goes through it, without TLS on loopback."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    cluster = config["clusters"][0]["cluster"]
    context = ssl.create_default_context(
        cadata=_decoded(cluster) or None, cafile=cluster.get("certificate-authority")
    )
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    proxy = FaultyApi(cluster["server"], context)
    config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{proxy.port}"}
    path = folder / f"faulty-{proxy.port}.kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    try:
        yield proxy, path
    finally:
        proxy.close()


def _decoded(cluster: dict[str, Any]) -> str:
    return base64.b64decode(cluster.get("certificate-authority-data", "")).decode()
