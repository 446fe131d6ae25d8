"""One worker as a process of its own: seconds until it is ready from a warm cache, and the memory that it then takes."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tierwright_worker.bench.asking import BenchError

LONGEST_START = 600.0
ANSWER_SECONDS = 120.0
POLL_SECONDS = 0.02
_ANSWER = 16
_LINE = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """`ready`: seconds from the start of the process to its first 200 from /health. Bytes otherwise.

    `peak`: the most that was ever resident, the reading of the weights included. `resident`: after a prompt that filled
    the context, so that the cache has its full length. `private`: of that, what no file backs. `pages`: of the prompt
    cache, in use then.
    """

    ready: float
    peak: int
    resident: int
    private: int
    pages: int = 0


def serve_once(flags: Sequence[str], *, context: int, log: Path) -> ProcessFacts:
    """Start `serve` with these flags on a free port of the loopback, fill its context once, read its memory, and end it.

    Raises:
        BenchError: it ended, or is not ready in time; the message names its log.
    """
    port = _free_port()
    command = [sys.executable, "-m", "tierwright_worker", "serve", *flags]
    address = ["--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as output:
        began = time.perf_counter()
        process = subprocess.Popen([*command, *address], stdout=output, stderr=output)
        try:
            ready = _wait_until_ready(process, port, began, log)
            _fill(port, context)
            memory = read_memory(Path(f"/proc/{process.pid}/status").read_text(encoding="ascii"))
            pages = _pages(port)
        finally:
            _end(process)
    return ProcessFacts(ready, *memory, pages)


def read_memory(status: str) -> tuple[int, int, int]:
    """Peak, resident and private bytes out of Linux's /proc/PID/status."""
    kilobytes = {name: int(count) for name, count in _LINE.findall(status)}
    peak, resident, private = (kilobytes[name] * 1024 for name in ("VmHWM", "VmRSS", "RssAnon"))
    return peak, resident, private


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, began: float, log: Path) -> float:
    while time.perf_counter() - began < LONGEST_START:
        if process.poll() is not None:
            raise BenchError(
                f"the worker ended with status {process.returncode} before it was ready; see {log}"
            )
        if _status(port) == 200:
            return time.perf_counter() - began
        time.sleep(POLL_SECONDS)
    raise BenchError(f"the worker was not ready after {LONGEST_START:g} s; see {log}")


def _status(port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return 0


def _fill(port: int, context: int) -> None:
    """Ask with a prompt that leaves no more room than for the answer; its ids are in any vocabulary."""
    prompt = [3 + at % 64 for at in range(context - _ANSWER)]
    body = {"model": "bench", "prompt": prompt, "max_tokens": _ANSWER, "temperature": 0, "ignore_eos": True}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310  # our own port
            answer.read()
    except OSError as error:
        raise BenchError(f"the worker answered nothing: {error}") from error


def _pages(port: int) -> int:
    """Pages of the prompt cache in use, on the device and on the host."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/load", timeout=5) as answer:
        levels = json.load(answer)["prompt_cache"]
    return sum(int(level["pages"]) for level in levels.values())


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
