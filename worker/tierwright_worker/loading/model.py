"""Opens a model at a path: a Hugging Face folder, a GGUF file, or a folder with one GGUF file in it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tierwright_worker.errors import ModelNotFoundError, OutOfMemoryError
from tierwright_worker.loading.converted import converted_folder
from tierwright_worker.models.config import ModelConfig, read_config
from tierwright_worker.models.layout import PLAIN, Layout
from tierwright_worker.models.parameters import Array, Parameters
from tierwright_worker.sources.volume import unfinished
from tierwright_worker.tokenizer.text import TextCodec, read_text_codec
from tierwright_worker.weights.assemble import load_parameters
from tierwright_worker.weights.safetensors_folder import SafetensorsFolder


@dataclass(frozen=True, slots=True)
class Model:
    """A model that is read: on the host, or already on a device."""

    config: ModelConfig
    parameters: Parameters
    text: TextCodec


def open_model(
    path: Path,
    *,
    cache: Path,
    dtype: str,
    layout: Layout = PLAIN,
    place: Callable[[Array], Array] = lambda array: array,
) -> Model:
    """The model at `path`, its weights in `dtype`; `cache` keeps converted files.

    `layout`: how weights lie. `place` puts each array on a device as soon as it is read; without it all stay on the host.

    Raises:
        WorkerError: one of its kinds, see `errors`; the message names the file and the way out.
    """
    folder = hugging_face_folder(path, cache=cache, dtype=dtype)
    config = read_config(folder)
    text = read_text_codec(folder, embedding_rows=config.vocab_size)
    try:
        source = SafetensorsFolder(folder)
        parameters = load_parameters(source, config, dtype, layout=layout, place=place)
    except MemoryError as error:
        size = config.parameters * (4 if dtype == "float32" else 2)
        raise OutOfMemoryError(
            f"the weights of {path} need {size / 2**30:.1f} GiB of memory in {dtype}, more than there is"
        ) from error
    return Model(config, parameters, text)


def hugging_face_folder(path: Path, *, cache: Path, dtype: str) -> Path:
    """The folder to read: `path` itself, or where its GGUF file was converted to."""
    try:
        return _folder_of(path, cache, dtype)
    except OSError as error:
        raise ModelNotFoundError(f"{path} cannot be read: {error}") from error


def _folder_of(path: Path, cache: Path, dtype: str) -> Path:
    if path.is_file() and path.suffix == ".gguf":
        return converted_folder(path, cache, dtype)
    if not path.is_dir():
        raise ModelNotFoundError(f"{path} is neither a folder nor a .gguf file")
    if unfinished(path):
        raise ModelNotFoundError(
            f"{path} holds a fetch that has not ended; run tierwright-worker fetch again"
        )
    if (path / "config.json").is_file():
        return path
    files = sorted(path.glob("*.gguf"))
    if len(files) == 1:
        return converted_folder(files[0], cache, dtype)
    if files:
        names = ", ".join(file.name for file in files)
        raise ModelNotFoundError(f"{path} holds several GGUF files ({names}); name one of them")
    raise ModelNotFoundError(
        f"{path} holds neither a config.json nor a .gguf file; give a Hugging Face folder or a GGUF file"
    )
