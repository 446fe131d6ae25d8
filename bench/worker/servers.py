"""Starts an engine's server as a process group of its own, waits until it is ready, and ends just that group."""

import ctypes
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.05
GRACE_SECONDS = 30.0
_PR_SET_CHILD_SUBREAPER = 36


class ServerError(Exception):
    """A server did not become ready; the message names its log."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server that is ready: its name, its port, the seconds from start to ready."""

    name: str
    port: int
    ready: float


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """How a server is started. `{port}` in its words stands for the port; `patience` in seconds."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    patience: float


@contextmanager
def running(spec: ServerSpec, logs: Path) -> Iterator[Running]:
    """The server, ready; it and all that it has started are gone afterwards.

    Raises:
        ServerError: it ended, or was not ready in time.
    """
    _inherit_orphans()
    port = free_port()
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{spec.name}.log"
    command = [word.replace("{port}", str(port)) for word in spec.command]
    with log.open("wb") as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            env={**os.environ, **spec.environment},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            while not healthy(port):
                if process.poll() is not None:
                    raise ServerError(f"{spec.name} ended with status {process.returncode}; see {log}")
                if time.perf_counter() - began > spec.patience:
                    raise ServerError(f"{spec.name} was not ready after {spec.patience:g} s; see {log}")
                time.sleep(POLL_SECONDS)
            yield Running(spec.name, port, time.perf_counter() - began)
        finally:
            end(process)


def healthy(port: int) -> bool:
    """Whether /health answers with 200."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return int(answer.status) == 200
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a group of its own, and the group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                continue
    _end_group(process.pid)


def _end_group(leader: int) -> None:
    """What a leader that is gone may have left behind; the group has its number, which nobody else can have meanwhile."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return
    while True:
        try:
            os.waitpid(-leader, 0)
        except ChildProcessError:
            return


def _inherit_orphans() -> None:
    """Children of a server that outlive it become ours, so that their CPU time counts as ours once they were waited for."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def words(*parts: object) -> tuple[str, ...]:
    """Words of a command line."""
    return tuple(str(part) for part in parts)


def pairs(flags: Mapping[str, object]) -> Sequence[str]:
    """Flags and their values as words."""
    return [str(word) for pair in flags.items() for word in pair]
