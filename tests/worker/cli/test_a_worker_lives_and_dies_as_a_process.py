"""A worker's process: idle it burns nothing, told to stop it drains, and when its engine dies it ends at once and says why."""

import http.client
import json
import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.worker.cli.processes import free_port, opened, process_of, status, until_ready
from tests.worker.tiny_folder import write_tiny_folder

IDLE_SECONDS = 5.0
MOST_IDLE = 0.02  # of one core
ASK = {"prompt": "abc", "max_tokens": 100, "temperature": 0, "ignore_eos": True, "stream": True}
# The command, with a device that breaks after some steps of the running engine.
BREAKING = """
import sys
from tierwright_worker import cli
from tierwright_worker.engine.executor import Executor
from tierwright_worker.engine.loop import Engine
from tierwright_worker.errors import DeviceError

def breaks(self, now=0.0, iterate=Engine.iterate):
    if self.counters.steps >= 5:
        raise DeviceError("program step-1-128 failed on the device: it is gone")
    return iterate(self, now)

Engine.iterate = breaks
sys.argv[0] = "tierwright-worker"
cli.run()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model to serve."""
    return write_tiny_folder(tmp_path_factory.mktemp("process") / "model")


def serve_flags(folder: Path, kept_folder: Path, port: int) -> tuple[object, ...]:
    """A small worker; its programs are kept between runs."""
    flags = {
        "--model": folder,
        "--weights-cache": folder,
        "--compile-cache": kept_folder,
        "--served-model-name": "tiny",
        "--max-model-len": 128,
        "--max-num-seqs": 2,
        "--prefill-buckets": 64,
        "--host": "127.0.0.1",
        "--port": port,
    }
    return ("serve", *(part for flag in flags.items() for part in flag))


def seconds_of(pid: int) -> float:
    """CPU time of a process so far, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def text_of(stream: bytes) -> str:
    """The text of a stream of completions."""
    events = [line[6:] for line in stream.splitlines() if line.startswith(b"data: {")]
    return "".join(json.loads(event)["choices"][0]["text"] for event in events)


def test_an_idle_worker_burns_nothing_and_a_busy_one_drains_when_told_to_stop(
    folder: Path, kept_folder: Path
) -> None:
    port = free_port()
    with process_of("-m", "tierwright_worker", *serve_flags(folder, kept_folder, port)) as process:
        until_ready(process, port)
        with opened(port, "/v1/completions", ASK) as answer:
            before = answer.read()
        shares = []
        # What else runs here may wake it up; it must be able to be idle.
        for _ in range(3):
            used, began = seconds_of(process.pid), time.monotonic()
            time.sleep(IDLE_SECONDS)
            shares.append((seconds_of(process.pid) - used) / (time.monotonic() - began))
            if shares[-1] < MOST_IDLE:
                break
        assert min(shares) < MOST_IDLE, shares
        answer = opened(port, "/v1/completions", ASK)
        first = answer.readline()
        process.send_signal(signal.SIGTERM)
        lines = [first, *answer.readlines()]
        assert lines[-2] == b"data: [DONE]\n"
        assert text_of(b"".join(lines)) == text_of(before)
        assert process.wait(30) == 0


def test_what_is_no_http_or_half_of_it_fills_no_log(folder: Path, kept_folder: Path) -> None:
    port = free_port()
    with process_of("-m", "tierwright_worker", *serve_flags(folder, kept_folder, port)) as process:
        until_ready(process, port)
        for junk in (
            b"\x16\x03\x01\x02\x00\x01\xfc\r\n\r\n",
            b"GET / HTTP/1.1\r\nx-request-id: \x01\r\n\r\n",
        ):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                connection.sendall(junk)
                assert b" 400 " in connection.recv(1000)
        assert status(port, "/health") == 200
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Traceback" not in errors


def test_the_death_of_the_engine_ends_the_process_at_once_with_its_reason(
    folder: Path, kept_folder: Path
) -> None:
    port = free_port()
    with process_of("-c", BREAKING, *serve_flags(folder, kept_folder, port)) as process:
        until_ready(process, port)
        told = b""
        with (
            suppress(http.client.HTTPException, ConnectionError),
            opened(port, "/v1/completions", ASK) as answer,
        ):
            while line := answer.readline():
                told += line
        began = time.monotonic()
        _, errors = process.communicate(timeout=30)
        assert time.monotonic() - began < 10
        assert process.returncode == 74
        last = errors.rstrip().splitlines()[-1]
        assert last.startswith("tierwright-worker: the engine died: ")
        assert last.endswith("it is gone")
        assert b"it is gone" in told
        assert b"[DONE]" not in told
        assert status(port, "/health") == 0
