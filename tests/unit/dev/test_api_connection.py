"""A connection that the server closed while it was idle costs no request, and no write is carried out twice."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.cluster.api import Api
from dev.cluster.control_plane.pki import create_authority

ANSWER = b'{"kind": "Status"}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(ANSWER)


class Server:
    """Answers one request on each connection; then it closes it, at once or when the next request has come."""

    def __init__(self, context: ssl.SSLContext, closes_at_once: bool) -> None:
        """Listen on loopback."""
        self._context = context
        self._closes_at_once = closes_at_once
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.seen: list[str] = []
        """The requests that arrived, answered or not."""
        self.closed = threading.Semaphore(0)
        """Released for each connection that was closed."""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                raw, _ = self._listener.accept()
                threading.Thread(target=self._one, args=(raw,), daemon=True).start()

    def _one(self, raw: socket.socket) -> None:
        with contextlib.suppress(OSError), self._context.wrap_socket(raw, server_side=True) as connection:
            self._read(connection)
            connection.sendall(HEAD + ANSWER)
            if not self._closes_at_once:
                self._read(connection)
        self.closed.release()

    def _read(self, connection: ssl.SSLSocket) -> None:
        received = b""
        while b"\r\n\r\n" not in received or (received[:4] == b"POST" and not received.endswith(b"}")):
            if not (more := connection.recv(65536)):
                return
            received += more
        self.seen.append(" ".join(received.decode().split()[:2]))

    def stop(self) -> None:
        """Accept no more connections."""
        self._listener.close()


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Server, Api]]:
    """A server of this kind and a client of it."""
    authority = create_authority(tmp_path, "test")
    pair = authority.serving("server", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    started = Server(context, closes_at_once=request.param)
    trusting = ssl.create_default_context(cafile=str(authority.pair.cert))
    api = Api("127.0.0.1", started.port, trusting, None, timeout_s=20)
    yield started, api
    api.close()
    started.stop()


@pytest.mark.parametrize("server", [True], indirect=True)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_connection_that_was_closed_while_idle_costs_no_request(
    server: tuple[Server, Api], method: str
) -> None:
    started, api = server
    for number in range(3):
        body = None if method == "GET" else {"number": number}
        assert api.request(method, f"/{number}", body) == {"kind": "Status"}
        assert started.closed.acquire(timeout=20)
    assert started.seen == [f"{method} /{number}" for number in range(3)]


@pytest.mark.parametrize("server", [False], indirect=True)
def test_a_write_that_went_out_whole_and_got_no_answer_is_not_sent_again(server: tuple[Server, Api]) -> None:
    started, api = server
    api.request("GET", "/first")
    with pytest.raises(ConnectionError):
        api.request("POST", "/second", {"number": 2})
    assert started.seen == ["GET /first", "POST /second"]
    assert api.request("GET", "/third") == {"kind": "Status"}


@pytest.mark.parametrize("server", [False], indirect=True)
def test_a_read_that_got_no_answer_on_an_old_connection_is_sent_again(server: tuple[Server, Api]) -> None:
    started, api = server
    api.request("GET", "/first")
    assert api.request("GET", "/second") == {"kind": "Status"}
    assert started.seen == ["GET /first", "GET /second", "GET /second"]
