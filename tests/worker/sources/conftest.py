"""Fixtures: a small model's files, a hub and an S3 store that serve it, and an environment that knows no others."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worker.sources.servers import Store, hub, s3
from tierwright_worker.sources.fetch import FetchSettings, fetch
from tierwright_worker.sources.retry import Patience
from tierwright_worker.sources.source import parse_source

MODEL = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer.json": b'{"version": "1.0"}',
    "model-00001-of-00002.safetensors": random.Random(1).randbytes(300_000),
    "model-00002-of-00002.safetensors": random.Random(2).randbytes(200_000),
    "model.safetensors.index.json": b'{"weight_map": {}}',
    "pytorch_model.bin": b"x" * 1000,
    "onnx/model.onnx": b"y" * 1000,
    "README.md": b"# A model",
}
LARGE = frozenset(name for name in MODEL if name.endswith("safetensors"))
WANTED = {name for name in MODEL if name.endswith((".json", ".safetensors"))}


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No token, key or proxy of the machine that runs the tests."""
    for name in [
        name for name in os.environ if name.startswith(("AWS_", "HF_")) or name.lower().endswith("_proxy")
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


@pytest.fixture
def hub_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A hub that serves MODEL as hf://owner/model."""
    with hub(Store(dict(MODEL), large=LARGE)) as store:
        monkeypatch.setenv("HF_ENDPOINT", store.url)
        yield store


@pytest.fixture
def s3_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store that serves MODEL as s3://bucket/llama."""
    with s3(Store({f"llama/{name}": content for name, content in MODEL.items()})) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", store.url)
        yield store


class Fetching:
    """Fetches with short waits, and keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def __call__(
        self, source: str, to: Path, *, tries: int = 4, gguf: str | None = None, every: float = 5.0
    ) -> None:
        """Fetch a source into a folder."""
        settings = FetchSettings(
            gguf, patience=Patience(tries=tries, first_wait=0.02, longest_wait=0.05), every=every
        )
        fetch(parse_source(source, {}), to, settings, self.said.append)

    @property
    def text(self) -> str:
        """All that was said."""
        return "\n".join(self.said)


@pytest.fixture
def fetching() -> Fetching:
    """Fetches."""
    return Fetching()


def held(folder: Path) -> dict[str, bytes]:
    """The files that a folder shows."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.relative_to(folder).parts[0].startswith(".tierwright")
    }


def model_files() -> dict[str, bytes]:
    """What a fetch of MODEL must leave."""
    return {name: MODEL[name] for name in WANTED}
