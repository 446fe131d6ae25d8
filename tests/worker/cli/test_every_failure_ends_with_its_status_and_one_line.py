"""As a process: each failure has its exit status, and its last line says what is wrong, where, and what to do."""

import json
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.worker.cli.processes import process_of
from tests.worker.gguf_files import write_gguf
from tests.worker.sources.servers import Fault, Store, hub
from tests.worker.tiny_folder import write_tiny_folder
from tierwright_worker.errors import WorkerError

# Statuses that other files of this folder show.
ELSEWHERE = {
    64: "settings",
    67: "nothing there",
    70: "a defect",
    71: "too little memory",
    73: "a volume that is full",
    74: "a device that broke",
}


@dataclass(frozen=True)
class Case:
    """A command, how it ends, and what its last line holds: what is wrong, and the way out."""

    words: tuple[object, ...]
    status: int
    wrong: str
    way_out: str
    variables: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where damaged models and volumes lie."""
    return tmp_path_factory.mktemp("failures")


@pytest.fixture(scope="module")
def stores() -> Iterator[tuple[Store, Store]]:
    """A hub that is too busy for ever, and one that wants a token."""
    # Retry-After 0 is kept, so that no try has to be waited for.
    busy = Store({}, faults={"api": [Fault(503, {"retry_after": "0"})] * 100})
    with hub(busy) as one, hub(Store({}, token="secret")) as other:
        yield one, other


def with_kind(content: bytes, tensor: bytes, kind: int) -> bytes:
    """A GGUF file whose header says so of a matrix: behind its name stand the number of its sizes, both, and the kind."""
    at = content.index(tensor) + len(tensor) + 4 + 2 * 8
    return content[:at] + struct.pack("<I", kind) + content[at + 4 :]


def cases(folder: Path, stores: tuple[Store, Store]) -> Iterator[Case]:
    """All of them."""
    other = write_tiny_folder(folder / "other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "model_type": "mamba"}))
    cut = write_tiny_folder(folder / "cut")
    weights = cut / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    newer, short = folder / "newer.gguf", folder / "short.gguf"
    write_gguf("llama", newer)
    content = newer.read_bytes()
    short.write_bytes(content[: len(content) // 2])
    newer.write_bytes(with_kind(content, b"blk.0.ffn_down.weight", 999))

    def serve(path: Path, *more: object) -> tuple[object, ...]:
        return (
            "serve",
            "--model",
            path,
            "--weights-cache",
            folder,
            "--host",
            "127.0.0.1",
            "--port",
            0,
            *more,
        )

    def fetch(to: str) -> tuple[object, ...]:
        return ("fetch", "--source", "hf://owner/model", "--to", folder / to)

    yield Case(serve(other), 65, "'mamba'", "this worker serves llama")
    yield Case(serve(newer), 65, "tensor 'blk.0.ffn_down.weight' is of the type 999", "llama-quantize")
    yield Case(serve(cut), 66, "model.safetensors", "fetch it again")
    yield Case(serve(short), 66, "short.gguf", "fetch it again")
    busy, closed = stores
    yield Case(fetch("busy"), 75, "after 8 tries", "run this again", {"HF_ENDPOINT": busy.url})
    yield Case(fetch("closed"), 77, "gated", "HF_TOKEN", {"HF_ENDPOINT": closed.url, "HF_TOKEN": ""})


def test_each_failure(folder: Path, stores: tuple[Store, Store]) -> None:
    every = list(cases(folder, stores))
    seen = {}
    # All at once: what takes time is the start of a process.
    with ExitStack() as stack:
        running = [
            stack.enter_context(process_of("-m", "tierwright_worker", *case.words, variables=case.variables))
            for case in every
        ]
        for case, process in zip(every, running, strict=True):
            _, errors = process.communicate(timeout=300)
            last = errors.rstrip("\n").splitlines()[-1]
            said = (case.words[:3], last)
            assert process.returncode == case.status, errors
            assert last.startswith("tierwright-worker: "), said
            assert case.wrong in last, said
            assert case.way_out in last, said
            assert "Traceback" not in errors, said
            assert len(last) < 1000, said
            seen[case.status] = last
    assert set(seen) | set(ELSEWHERE) >= {kind.exit_status for kind in WorkerError.__subclasses__()}
