"""The command serves a real model as a process, ends on SIGTERM, and says one line with an exit status when it cannot."""

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.worker.support import random_model
from tierwright_worker.errors import WorkerError

ROOT = Path(__file__).resolve().parents[3]
RECORD = ROOT / "tests" / "worker" / "parity" / "records" / "smollm2.json.gz"


@contextmanager
def worker(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """The command as a process of its own, which is gone afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tierwright_worker", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "worker")},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


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


def ask(port: int, content: str, max_tokens: int) -> dict[str, Any]:
    """One chat request, greedy."""
    body = {
        "model": "smol",
        "messages": [{"role": "user", "content": content}],
        "max_tokens": max_tokens,
        "temperature": 0,
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
        result: dict[str, Any] = json.load(answer)
    return result


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.model
def test_a_real_model_is_served_as_transformers_would_answer(smollm2_gguf: Path, kept_folder: Path) -> None:
    with gzip.open(RECORD, "rt", encoding="utf-8") as file:
        records = json.load(file)["prompts"][:3]
    port = free_port()
    flags = {
        "--model": smollm2_gguf,
        "--weights-cache": kept_folder,
        "--compile-cache": kept_folder,
        "--served-model-name": "smol",
        "--max-model-len": 256,
        "--max-num-seqs": 1,
        "--speculative-tokens": 4,
        "--host": "127.0.0.1",
        "--port": port,
    }
    seen = set()
    with worker("serve", *(part for flag in flags.items() for part in flag)) as process:
        deadline = time.monotonic() + 500
        while (now := status(port, "/health")) != 200:
            seen.add(now)
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for record in records:
            answer = ask(port, record["prompt"], len(record["greedy"]))
            assert answer["choices"][0]["message"]["content"] == record["answer"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert 503 in seen


def test_a_model_that_cannot_be_served_is_one_line_and_its_exit_status(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    random_model("llama", folder)
    cases = [
        (("compile", "--model", tmp_path / "nothing"), 67, "neither a folder nor a .gguf file"),
        (("serve", "--port", "0", "--model", folder), 67, "holds no tokenizer.json"),
    ]
    for arguments, exit_status, says in cases:
        with worker(*arguments, "--weights-cache", tmp_path, "--compile-cache", tmp_path) as process:
            _, errors = process.communicate(timeout=120)
            assert process.returncode == exit_status
            assert errors.splitlines()[-1].startswith("tierwright-worker: ")
            assert says in errors.splitlines()[-1]


def test_every_exit_status_is_documented() -> None:
    page = (ROOT / "worker" / "README.md").read_text(encoding="utf-8")
    kinds = WorkerError.__subclasses__()
    assert len(kinds) >= 7
    assert len({kind.exit_status for kind in kinds}) == len(kinds)
    for kind in kinds:
        assert f"| {kind.exit_status} |" in page, kind.__name__
