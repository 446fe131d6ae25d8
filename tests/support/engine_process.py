"""Runs an engine simulator as a process of its own and sends it requests."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dev.cluster.machine.ports import free_port
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Engine:
    """A running simulator on a port of loopback."""

    port: int

    @property
    def address(self) -> str:
        """Host and port, as Prometheus names the instance."""
        return f"127.0.0.1:{self.port}"

    def page(self) -> str:
        """Its metrics page."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def ask(self, prompt: str = "Say something.", tokens: int = 5) -> None:
        """One chat request, to its end."""
        body = {"model": "m", "max_tokens": tokens, "messages": [{"role": "user", "content": prompt}]}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/chat/completions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - loopback
            answer.read()


@contextmanager
def running_engine(folder: Path, *arguments: str, port: int = 0, **settings: str) -> Iterator[Engine]:
    """A simulator that is ready at once and answers fast; ``settings`` are ENGINE_SIM_* in lower case."""
    port = port or free_port()
    chosen = {"start_seconds": "0", "time_scale": "0.2", **settings}
    log = folder / f"engine-{port}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "dev.engine_sim",
                "m",
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
                *arguments,
            ],
            env={**os.environ, **{f"ENGINE_SIM_{name.upper()}": value for name, value in chosen.items()}},
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
        )
    engine = Engine(port)

    def ready() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"the engine ended:\n{log.read_text(encoding='utf-8')[-3000:]}")
        try:
            return bool(engine.page())
        except (urllib.error.URLError, OSError):
            return False

    try:
        eventually(ready, "the engine serves")
        yield engine
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=10)
