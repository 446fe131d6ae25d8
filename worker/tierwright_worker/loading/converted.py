"""Converts a GGUF file to a Hugging Face folder once, and keeps the result on the cache volume by the file's hash.

Reading a GGUF file takes seconds to minutes (a Python loop over the vocabulary, then dequantising); its result is plain.
Several engines may share a volume: one converts while the others wait, and a half-written folder is never used.
"""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import save_file

from tierwright_worker.errors import CacheVolumeError
from tierwright_worker.tokenizer.gguf_tokenizer import tokenizer_from_gguf
from tierwright_worker.weights.gguf_file import GgufFile
from tierwright_worker.weights.source import DTYPES

_FORMAT = 1  # raise it when what is written changes; older folders are then left alone and converted anew
_SHARD_BYTES = 2 << 30  # what is held in memory at once


def converted_folder(gguf: Path, cache: Path, dtype: str) -> Path:
    """The folder that holds the file's model in `dtype`; made when it is not there yet.

    Raises:
        CacheVolumeError: the volume is full, read-only or otherwise not writable, and the model is not on it yet.
        CorruptModelError, UnsupportedModelError: as GgufFile and its tokenizer raise them.
    """
    folder = cache / "converted" / f"{file_digest(gguf)}-{dtype}-{_FORMAT}"
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_suffix(".lock")):
            if not folder.is_dir():
                _convert_into(gguf, folder, dtype)
    except (
        OSError,
        SafetensorError,
    ) as error:  # safetensors wraps what the system says in an error of its own
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        space = (
            " (is it full?)" if full or "No space left" in str(error) or "os error 28" in str(error) else ""
        )
        raise CacheVolumeError(
            f"the converted model cannot be written to {folder.parent}{space}: {error}; "
            "the weights cache must be writable, or hold the converted model already"
        ) from error
    return folder


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """An exclusive lock that ends with the process, however it ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _convert_into(gguf: Path, folder: Path, dtype: str) -> None:
    started = f".converting-{folder.name}-"
    for left in folder.parent.glob(f"{started}*"):
        # We hold the lock, so nobody writes there any more: its process was killed.
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=started, dir=folder.parent))
    try:
        _write(GgufFile(gguf), work, dtype)
        _sync(work)
        work.rename(folder)  # the one step by which it begins to exist
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write(source: GgufFile, folder: Path, dtype: str) -> None:
    folder.chmod(0o755)
    _write_json(folder / "config.json", source.hf_config())
    text = tokenizer_from_gguf(source.metadata, where=source.where())
    text.tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(folder / "tokenizer_config.json", text.config)
    weight_map: dict[str, str] = {}
    batch, size = {}, 0
    for name in [*sorted(source.names()), ""]:
        if name:
            batch[name] = source.read(name).astype(DTYPES[dtype] if name.endswith("weight") else "float32")
            size += batch[name].nbytes
        if batch and (size > _SHARD_BYTES or not name):
            shard = f"model-{len(set(weight_map.values())) + 1:05d}.safetensors"
            save_file(batch, folder / shard, metadata={"format": "pt"})
            weight_map.update(dict.fromkeys(batch, shard))
            batch, size = {}, 0
    _write_json(
        folder / "model.safetensors.index.json", {"metadata": {"format": "pt"}, "weight_map": weight_map}
    )


def _sync(folder: Path) -> None:
    """See that all of it is on the disk before its name says that it is whole."""
    for path in [*folder.iterdir(), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _write_json(path: Path, value: object) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
