"""A hub and an S3 store as real HTTP servers on loopback, which break off, refuse and lie as told."""

import base64
import hashlib
import json
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Seen:
    """One request that came in."""

    method: str
    path: str
    headers: Message


@dataclass(frozen=True)
class Fault:
    """What one answer does instead of the right one. `cut`: bytes after which the connection is closed."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut: int | None = None
    wrong: bool = False
    no_ranges: bool = False
    slow: float = 0.0


@dataclass
class Store:
    """What the servers serve. `faults` of a path are used up one by one, then the answers are right."""

    files: dict[str, bytes]
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    token: str | None = None
    large: frozenset[str] = frozenset()  # kept with LFS: named by SHA-256, others by git's blob hash
    checksums: dict[str, dict[str, str]] = field(default_factory=dict)  # S3 answers more of these headers
    url: str = ""

    def fault(self, path: str) -> Fault:
        """The next answer's fault."""
        waiting = self.faults.get(path)
        return waiting.pop(0) if waiting else Fault()

    def requests(self, path: str) -> list[Seen]:
        """The GET requests for one file."""
        return [seen for seen in self.seen if seen.method == "GET" and seen.path.endswith(path)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: Store

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing."""

    def note(self) -> None:
        self.store.seen.append(Seen(self.command, unquote(urlsplit(self.path).path), self.headers))

    def plain(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def content(self, path: str, **headers: str) -> None:
        """A file, from where it is asked for, with the fault that is due."""
        content, fault = self.store.files[path], self.store.fault(path)
        if fault.status is not None:
            self.plain(fault.status, fault.body, **fault.headers)
            return
        start, status = 0, 200
        asked = self.headers.get("range")
        if asked is not None and not fault.no_ranges:
            start, status = int(asked.removeprefix("bytes=").rstrip("-")), 206
            if start >= len(content):
                self.plain(416)
                return
        body = content[start:]
        if fault.wrong:
            body = bytes(byte ^ 1 for byte in body)
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        if status == 206:
            self.send_header("content-range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault.slow:
            for at in range(0, len(body), 1000):
                self.wfile.write(body[at : at + 1000])
                time.sleep(fault.slow)
            return
        self.wfile.write(body if fault.cut is None else body[: fault.cut])
        if fault.cut is not None:
            self.wfile.flush()
            self.close_connection = True


class _Hub(_Handler):
    def do_GET(self) -> None:
        self.note()
        path = unquote(urlsplit(self.path).path)
        allowed = (
            self.store.token is None or self.headers.get("authorization") == f"Bearer {self.store.token}"
        )
        if not allowed:
            self.plain(401, b"{}", x_error_code="GatedRepo", x_error_message="gated")
        elif path.startswith("/api/models/"):
            self._info(path)
        elif f"/resolve/{COMMIT}/" in path:
            self.content(path.partition(f"/resolve/{COMMIT}/")[2])
        else:
            self.plain(404, b"{}", x_error_code="RepoNotFound")

    def _info(self, path: str) -> None:
        fault = self.store.fault("api")
        if fault.status is not None:
            self.plain(fault.status, fault.body, **fault.headers)
            return
        repository, _, revision = path.removeprefix("/api/models/").partition("/revision/")
        if repository != "owner/model":
            self.plain(404, b"{}", x_error_code="RepoNotFound")
            return
        if revision not in ("main", COMMIT):
            self.plain(404, b"{}", x_error_code="RevisionNotFound")
            return
        siblings = [self._sibling(name, content) for name, content in self.store.files.items()]
        body = json.dumps({"id": repository, "sha": COMMIT, "siblings": siblings}).encode()
        self.plain(200, body, content_type="application/json")

    def _sibling(self, name: str, content: bytes) -> dict[str, Any]:
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
        entry: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": blob}
        if name in self.store.large:
            sha256 = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"size": len(content), "sha256": sha256, "pointerSize": 134}
        return entry


class _S3(_Handler):
    def do_GET(self) -> None:
        self.note()
        split = urlsplit(self.path)
        path = unquote(split.path).removeprefix("/bucket/")
        query = parse_qs(split.query)
        if unquote(split.path) not in ("/bucket", "/bucket/") and not split.path.startswith("/bucket/"):
            self._error(404, "NoSuchBucket")
        elif "list-type" in query:
            self._list(query["prefix"][0])
        elif path not in self.store.files:
            self._error(404, "NoSuchKey")
        elif self.headers.get("if-match", self._tag(path)) != self._tag(path):
            self._error(412, "PreconditionFailed")
        else:
            extra = self.store.checksums.get(path, {}) if self.command == "HEAD" else {}
            self.content(path, etag=self._tag(path), **extra)

    do_HEAD = do_GET  # noqa: N815

    def _list(self, prefix: str) -> None:
        fault = self.store.fault("list")
        if fault.status is not None:
            self._error(fault.status, fault.body.decode(), **fault.headers)
            return
        contents = "".join(
            f"<Contents><Key>{escape(name)}</Key><ETag>{escape(self._tag(name))}</ETag><Size>{len(content)}</Size></Contents>"
            for name, content in sorted(self.store.files.items())
            if name.startswith(prefix)
        )
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
        self.plain(200, body.encode(), content_type="application/xml")

    def _error(self, status: int, code: str, **headers: str) -> None:
        body = "" if self.command == "HEAD" else f"<Error><Code>{code}</Code><Message>no</Message></Error>"
        self.plain(status, body.encode(), content_type="application/xml", **headers)

    def _tag(self, path: str) -> str:
        return f'"{hashlib.md5(self.store.files[path], usedforsecurity=False).hexdigest()}"'


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are part of the tests."""


@contextmanager
def _serving(handler: Callable[..., Any], store: Store) -> Iterator[Store]:
    server = _Server(("127.0.0.1", 0), handler)
    store.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        with suppress(OSError):
            server.shutdown()
            server.server_close()
        thread.join(10)


def hub(store: Store) -> Any:
    """A hub with one repository, `owner/model`, at one commit."""
    return _serving(type("Hub", (_Hub,), {"store": store}), store)


def s3(store: Store) -> Any:
    """An S3 store with one bucket, `bucket`."""
    return _serving(type("S3", (_S3,), {"store": store}), store)


def checksum(algorithm: str, content: bytes) -> str:
    """A checksum as S3 writes it."""
    if algorithm == "sha256":
        return base64.b64encode(hashlib.sha256(content).digest()).decode()
    if algorithm == "crc64nvme":
        from awscrt import checksums

        return base64.b64encode(checksums.crc64nvme(content).to_bytes(8, "big")).decode()
    return base64.b64encode(zlib.crc32(content).to_bytes(4, "big")).decode()
