"""Opens models that may be damaged."""

from pathlib import Path

from tierwright_worker.errors import WorkerError
from tierwright_worker.loading.model import open_model


def opens(path: Path) -> bool:
    """Whether the model opens; any error but the worker's own is a failure of the test."""
    try:
        open_model(path, cache=path.parent / "cache", dtype="float32")
        said = None
    except WorkerError as error:
        said = str(error)
    assert said is None or said.strip()
    return said is None
