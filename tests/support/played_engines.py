"""Engines of a simple queueing model, and their metrics pages on addresses of loopback in place of pods that kwok plays."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from tests.support.kubernetes import Kubernetes
from tests.unit.observe.engine_page import page
from tierwright.engines.engine import HTTP_PORT

PROMPT, OUTPUT = 500, 200
"""Tokens of a request."""
WORK = 0.047
"""Seconds of engine time of such a request, by the prior of an NVIDIA device."""
FIXED_STEP = 0.01147
_LOOK_S: Final = 0.2


@dataclass
class Engine:
    """One pod: its counters, which only grow."""

    uid: str
    created: float = 0.0
    ready_at: float = 0.0
    finished: float = 0.0
    missed: float = 0.0
    running: float = 0.0

    def serve(self, rate: float, seconds: float) -> None:
        """Requests that it gets, of which more miss both objectives the nearer it is to its limit."""
        load_ = min(0.95, rate * WORK)
        self.running = rate * OUTPUT * FIXED_STEP / (1 - load_)
        self.finished += rate * seconds
        self.missed += rate * seconds * min(1.0, max(0.0, (load_ - 0.6) / 0.3))

    def text(self) -> str:
        """Its page."""
        count, slow = int(self.finished), int(self.missed)
        fast = count - slow
        tokens = count * OUTPUT
        return page(
            running=round(self.running),
            waiting=0,
            finished=count,
            first_tokens=(fast // 2, fast, fast, count, count),
            per_output=(fast // 2, fast, count, count),
            prompt_tokens=count * PROMPT,
            cached_tokens=0,
            output_tokens=tokens,
            inter_token=(tokens * 0.02, tokens),
            steps=(count * (PROMPT + OUTPUT), max(1, tokens // 10)),
            process_start=self.created,
        )


class PlayedEngines:
    """Serves a page for every ready pod of a namespace; ``rates`` are the requests per second of each tier, shared evenly."""

    def __init__(self, k8s: Kubernetes) -> None:
        self.rates: dict[str, float] = {}
        self.more = ""
        """Lines that every page has besides."""
        self.silent = False
        """Whether every page is refused."""
        self._k8s = Kubernetes(k8s.kubeconfig, k8s.namespace)
        self._engines: dict[str, Engine] = {}
        self._tiers: dict[str, str] = {}
        self._servers: dict[str, ThreadingHTTPServer] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._last = time.monotonic()
        # Each process has its own addresses; each namespace of it follows on the last one.
        self._net = f"127.{64 + os.getpid() % 128}"
        self._thread = threading.Thread(target=self._play, name="played engines", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all servers."""
        self._stop.set()
        self._thread.join(20)
        for server in self._servers.values():
            server.shutdown()
            server.server_close()
        self._k8s.close()

    def _play(self) -> None:
        while not self._stop.wait(_LOOK_S):
            ready = [pod for pod in self._k8s.list("Pod") if _is_ready(pod)]
            for pod in ready:
                if pod["metadata"]["uid"] not in self._servers:
                    self._serve(pod)
            self._pass_time({pod["metadata"]["uid"] for pod in ready})

    def _pass_time(self, ready: set[str]) -> None:
        now = time.monotonic()
        seconds, self._last = now - self._last, now
        with self._lock:
            for tier, rate in self.rates.items():
                serving = [uid for uid in ready & self._engines.keys() if self._tiers[uid] == tier]
                for uid in serving:
                    self._engines[uid].serve(rate / len(serving), seconds)

    def _serve(self, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        engine = Engine(uid, created=time.time())
        server, address = self._listen(self._handler(engine))
        with self._lock:
            self._engines[uid], self._servers[uid] = engine, server
            self._tiers[uid] = pod["metadata"]["labels"]["tierwright.dev/tier"]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        status = {"podIP": address, "podIPs": [{"ip": address}]}
        self._k8s.patch("Pod", pod["metadata"]["name"], {"status": status}, subresource="status")

    def _listen(self, handler: type[BaseHTTPRequestHandler]) -> tuple[ThreadingHTTPServer, str]:
        """On the first free address."""
        for number in range(1, 60_000):
            address = f"{self._net}.{number // 250}.{1 + number % 250}"
            try:
                return ThreadingHTTPServer((address, HTTP_PORT), handler), address
            except OSError:
                continue
        raise RuntimeError(f"no address of {self._net}.0.0 is free at port {HTTP_PORT}")

    def _handler(self, engine: Engine) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with outer._lock:
                    body = (engine.text() + outer.more).encode()
                self.send_response(503 if outer.silent else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                """Nothing."""

        return Page


@contextmanager
def played_engines(k8s: Kubernetes) -> Iterator[PlayedEngines]:
    """Engines for the pods of the user's namespace."""
    engines = PlayedEngines(k8s)
    try:
        yield engines
    finally:
        engines.close()


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return not pod["metadata"].get("deletionTimestamp") and any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )
