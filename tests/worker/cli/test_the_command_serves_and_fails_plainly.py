"""The command serves a real model as a process, ends on SIGTERM, and says one line with an exit status when it cannot."""

import gzip
import json
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.worker.cli.processes import ROOT, free_port, process_of, status
from tests.worker.support import random_model
from tierwright_worker.errors import WorkerError

RECORD = ROOT / "tests" / "worker" / "parity" / "records" / "smollm2.json.gz"


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
    with process_of(
        "-m", "tierwright_worker", "serve", *(part for flag in flags.items() for part in flag)
    ) as process:
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
        caches = ("--weights-cache", tmp_path, "--compile-cache", tmp_path)
        with process_of("-m", "tierwright_worker", *arguments, *caches) as process:
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
