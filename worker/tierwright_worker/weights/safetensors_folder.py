"""Reads the safetensors files of a Hugging Face folder, one or several shards, with or without an index."""

from pathlib import Path
from typing import Any

import ml_dtypes
from safetensors import SafetensorError, safe_open

from tierwright_worker.errors import CorruptModelError, ModelNotFoundError, UnsupportedModelError
from tierwright_worker.models.config import read_json_object
from tierwright_worker.weights.source import HostArray

_ = ml_dtypes.bfloat16  # importing it is what makes numpy know the dtype by which safetensors asks for it
_INDEX = "model.safetensors.index.json"
_FLOATS = ("F64", "F32", "F16", "BF16")


class SafetensorsFolder:
    """The tensors of a folder; nothing is read before it is asked for.

    A file is mapped for the time of one read alone: pages of a mapping that stays count as memory of the process, so that
    a model would seem to lie in memory twice once all of it was read.
    """

    def __init__(self, folder: Path) -> None:
        """Open all shards and read their headers.

        Raises:
            ModelNotFoundError: no safetensors file, or one that the index names is missing.
            CorruptModelError: a header that is damaged or does not fit the file's size, an index that names no tensor.
        """
        self._folder = folder
        self._files: dict[str, Path] = {}
        for path in _shards(folder):
            try:
                with _open(path) as shard:
                    self._files.update(dict.fromkeys(shard.keys(), path))
            except (SafetensorError, OSError) as error:
                raise CorruptModelError(
                    f"{path} is no readable safetensors file: {error}; fetch it again"
                ) from error

    def names(self) -> frozenset[str]:
        """All tensor names."""
        return frozenset(self._files)

    def read(self, name: str) -> HostArray:
        """One tensor.

        Raises:
            CorruptModelError: it is missing or damaged.
            UnsupportedModelError: it is quantised by a scheme of its own.
        """
        path = self._files.get(name)
        if path is None:
            raise CorruptModelError(f"{self._folder} holds no tensor {name!r}")
        try:
            with _open(path) as shard:
                dtype = shard.get_slice(name).get_dtype()
                if dtype not in _FLOATS:
                    raise UnsupportedModelError(
                        f"{self._folder}: tensor {name!r} is stored as {dtype}; quantised checkpoints are not "
                        "supported, give f32, f16 or bf16 safetensors or a GGUF file"
                    )
                tensor: HostArray = shard.get_tensor(name)
        except (SafetensorError, OSError, ValueError, TypeError) as error:
            raise CorruptModelError(
                f"{self._folder}: tensor {name!r} cannot be read: {error}; fetch it again"
            ) from error
        return tensor

    def where(self) -> str:
        """The folder."""
        return str(self._folder)


def _open(path: Path) -> Any:
    return safe_open(str(path), framework="numpy")


def _shards(folder: Path) -> list[Path]:
    index = folder / _INDEX
    if not index.is_file():
        paths = sorted(folder.glob("*.safetensors"))
        if not paths:
            raise ModelNotFoundError(
                f"{folder} holds no .safetensors file; pickled checkpoints (.bin) are not read"
            )
        return paths
    weight_map = read_json_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CorruptModelError(f"{index} holds no weight_map")
    names = set(weight_map.values())
    if not all(isinstance(name, str) and Path(name).name == name for name in names):
        raise CorruptModelError(f"{index} names files outside its folder")
    paths = [folder / name for name in sorted(names)]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise ModelNotFoundError(
            f"{folder} lacks {', '.join(missing)}, which {_INDEX} names; download the rest"
        )
    return paths
