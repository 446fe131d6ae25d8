"""Decides which files of a model are fetched: weights in one format, configuration, tokenizer, templates; never a second copy."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from tierwright_worker.errors import (
    ModelNotFoundError,
    SettingsError,
    SourceUnreachableError,
    UnsupportedModelError,
)
from tierwright_worker.sources.remote import RemoteFile

_BESIDE: Final = ("*.json", "*.jinja", "tokenizer.model", "merges.txt", "vocab.txt", "LICENSE*", "NOTICE*")
_OTHER_WEIGHTS: Final = (
    "*.bin",
    "*.pth",
    "*.pt",
    "*.ckpt",
    "*.h5",
    "*.msgpack",
    "*.onnx",
    "*.ot",
    "*.tflite",
)


@dataclass(frozen=True, slots=True)
class Selection:
    """What is fetched, and what is left out with the reason, in the order of the names."""

    chosen: tuple[RemoteFile, ...]
    skipped: tuple[tuple[RemoteFile, str], ...]

    @property
    def size(self) -> int:
        """Bytes of all chosen files."""
        return sum(file.size for file in self.chosen)


def select(files: Sequence[RemoteFile], *, gguf: str | None, where: str) -> Selection:
    """The files that the worker reads. `gguf`: the file to take where there are several; `where` is named in messages.

    Raises:
        ModelNotFoundError: no file at all, or none of the name asked for.
        UnsupportedModelError: only weights in formats that are not read.
        SettingsError: several GGUF files and none was named.
        SourceUnreachableError: a name that leads out of the folder; no honest source has one.
    """
    if not files:
        raise ModelNotFoundError(f"{where} holds no files")
    outside = next((file.path for file in files if _leaves(file.path)), None)
    if outside is not None:
        raise SourceUnreachableError(
            f"{where} lists {outside!r}, which would be written outside the folder; nothing is fetched from it"
        )
    top = [file for file in files if "/" not in file.path]
    weights = _weights(top, files, gguf, where)
    chosen, skipped = [], []
    for file in sorted(files, key=lambda file: file.path):
        why = _why_not(file, weights, gguf_alone=all(name.endswith(".gguf") for name in weights))
        if why is None:
            chosen.append(file)
        else:
            skipped.append((file, why))
    return Selection(tuple(chosen), tuple(skipped))


def _weights(top: list[RemoteFile], files: Sequence[RemoteFile], gguf: str | None, where: str) -> set[str]:
    ggufs = sorted(file.path for file in files if file.path.endswith(".gguf"))
    if gguf is not None:
        if gguf not in ggufs:
            raise ModelNotFoundError(f"{where} holds no {gguf}; its GGUF files: {', '.join(ggufs) or 'none'}")
        return {gguf}
    tensors = {file.path for file in top if file.path.endswith(".safetensors")}
    if tensors:
        named = {name for name in tensors if name.startswith("model")}
        return named or tensors
    if len(ggufs) == 1:
        return set(ggufs)
    if ggufs:
        raise SettingsError(f"{where} holds several GGUF files ({', '.join(ggufs)}); name one: --gguf NAME")
    others = sorted(file.path for file in files if _matches(file.path, _OTHER_WEIGHTS))
    if others:
        raise UnsupportedModelError(
            f"{where} holds weights only in formats that are not read ({', '.join(others[:3])}); "
            "safetensors or GGUF is needed"
        )
    raise ModelNotFoundError(f"{where} holds neither .safetensors nor .gguf files")


def _why_not(file: RemoteFile, weights: set[str], *, gguf_alone: bool) -> str | None:
    """The reason to leave a file out; None to take it."""
    name = file.path.rpartition("/")[2]
    if file.path in weights:
        return None
    if name.endswith((".safetensors", ".gguf")) or _matches(name, _OTHER_WEIGHTS):
        return "the same weights once more, or weights that are not asked for"
    if "/" in file.path:
        return "lies in a folder of its own"
    if gguf_alone and not name.startswith(("LICENSE", "NOTICE")):
        return "a GGUF file holds its configuration and tokenizer itself"
    return None if _matches(name, _BESIDE) else "not read by the worker"


def _leaves(path: str) -> bool:
    return path.startswith("/") or ".." in path.split("/") or "\0" in path


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
