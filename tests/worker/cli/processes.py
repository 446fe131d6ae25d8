"""Runs the worker's command as a process of its own, and asks it over HTTP."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def process_of(
    *words: object, before: tuple[str, ...] = (), variables: Mapping[str, str] = MappingProxyType({})
) -> Iterator[subprocess.Popen[str]]:
    """Python with these arguments and further variables, which is gone afterwards; `before`: a command that runs it."""
    process = subprocess.Popen(
        [*before, sys.executable, *map(str, words)],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'worker'}:{ROOT}", **variables},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def status(port: int, path: str) -> int:
    """The HTTP status of a GET; 0 while nothing listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return 0


def until_ready(process: subprocess.Popen[str], port: int, seconds: float = 300) -> None:
    """Return once the worker is warm."""
    deadline = time.monotonic() + seconds
    while status(port, "/health") != 200:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


def opened(port: int, path: str, body: dict[str, Any], seconds: float = 60) -> http.client.HTTPResponse:
    """The answer to a POST of JSON, of which nothing is read yet."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=seconds)  # noqa: S310
    return answer
