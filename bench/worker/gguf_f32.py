"""Writes a GGUF file anew with all its weights in f32, so that engines that read GGUF compute with the same numbers."""

from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType, dequantize

_FILE_TYPE = "general.file_type"
_ARCHITECTURE = "general.architecture"


def write_f32(source: Path, target: Path) -> None:
    """Write `target` with the weights of `source` as f32; it begins to exist when it is complete."""
    reader = GGUFReader(source)
    work = target.with_suffix(".part")
    writer = GGUFWriter(work, str(reader.fields[_ARCHITECTURE].contents()))
    for name, field in reader.fields.items():
        # The header's own fields and the architecture are written by the writer.
        if not name.startswith("GGUF.") and name != _ARCHITECTURE:
            _copy(writer, name, field)
    for tensor in reader.tensors:
        shape = tuple(int(size) for size in reversed(tensor.shape))
        kind = GGMLQuantizationType(tensor.tensor_type)
        values = dequantize(tensor.data, kind).astype(np.float32).reshape(shape)
        writer.add_tensor(tensor.name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    work.rename(target)


def _copy(writer: GGUFWriter, name: str, field: Any) -> None:
    kind = field.types[0]
    if name == _FILE_TYPE:
        writer.add_key_value(name, int(LlamaFileType.ALL_F32), kind)
    elif kind is GGUFValueType.ARRAY:
        writer.add_key_value(name, field.contents(), kind, sub_type=field.types[-1])
    else:
        writer.add_key_value(name, field.contents(), kind)
