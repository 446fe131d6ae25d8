"""A TCP proxy on loopback between the operator and the API server, with the faults that networks have."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

import yaml

_CHUNK = 65536


class TcpProxy:
    """Forwards connections to ``(host, port)``; listens on ``port`` of 127.0.0.1.

    ``cut`` closes all connections, ``refuse`` closes new ones at once as well, ``stall`` keeps present and new
    connections open without forwarding a byte, ``stall_present`` only those that are open now. ``heal`` ends refusing
    and stalling of new connections; stalled ones stay silent for ever, as behind a load balancer that forgot them.
    """

    def __init__(self, host: str, port: int) -> None:
        """Start to listen."""
        self._target = (host, port)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._stalled: set[socket.socket] = set()
        self._refusing = False
        self._stalling = False
        self.accepted = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True, name="proxy").start()

    def cut(self) -> None:
        """Close all connections."""
        with self._lock:
            victims = list(self._open)
        for each in victims:
            _close(each)

    def refuse(self) -> None:
        """No connection until ``heal``."""
        self._refusing = True
        self.cut()

    def stall_present(self) -> None:
        """The connections of now never carry a byte again."""
        with self._lock:
            self._stalled |= self._open

    def stall(self) -> None:
        """No connection carries a byte; new ones are accepted and silent until ``heal``."""
        self._stalling = True
        self.stall_present()

    def heal(self) -> None:
        """New connections work again."""
        self._refusing = self._stalling = False

    def close(self) -> None:
        """Stop listening and close everything."""
        self._refusing = True
        _close(self._listener)
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self._refusing:
                _close(client)
                continue
            try:
                server = socket.create_connection(self._target, timeout=10)
                server.settimeout(None)
            except OSError:
                _close(client)
                continue
            with self._lock:
                self._open |= {client, server}
                if self._stalling:
                    self._stalled |= {client, server}
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(_CHUNK):
                if source in self._stalled or self._stalling:
                    continue
                sink.sendall(data)
        except OSError:
            pass
        finally:
            silent = source in self._stalled
            _close(source)
            if not silent:
                _close(sink)
            with self._lock:
                self._open -= {source, sink}
                self._stalled -= {source}


@contextlib.contextmanager
def proxied(kubeconfig: Path, folder: Path) -> Iterator[tuple[TcpProxy, Path]]:
    """A proxy before the kubeconfig's API server, and a kubeconfig that goes through it."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    cluster = config["clusters"][0]["cluster"]
    address = urlparse(cluster["server"])
    proxy = TcpProxy(str(address.hostname), int(address.port or 443))
    cluster["server"] = f"https://127.0.0.1:{proxy.port}"
    path = folder / f"through-{proxy.port}.kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    try:
        yield proxy, path
    finally:
        proxy.close()


def _close(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
