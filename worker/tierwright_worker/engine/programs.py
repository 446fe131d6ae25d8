"""The compiled programs of an engine: built by shape, kept on the compile volume, loaded again without tracing.

A stored program is machine code for one kind of processor, so its name holds everything that it depends on; a file that is
damaged or made by something else is compiled anew, and a volume that cannot be written costs time, never the start.
"""

import hashlib
import logging
import pickle
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jax.experimental import serialize_executable

from tierwright_worker.errors import CacheVolumeError
from tierwright_worker.models.exact import COMPILER_OPTIONS

_log = logging.getLogger(__name__)
_UNFINISHED = ".unfinished-"
_STALE_SECONDS = 3600.0
Compiled = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Program:
    """A function to be compiled for arguments of fixed shapes. `donate`: positions of arguments that it may overwrite.

    `devices`: how many run it; its arguments' shardings say the same.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]  # jax.ShapeDtypeStruct leaves
    result: Any  # a pytree of the result's structure, whatever its leaves
    donate: tuple[int, ...] = ()
    devices: int = 1


@dataclass(frozen=True, slots=True)
class Built:
    """A program that is ready, where it came from (compiled or loaded) and how long that took."""

    compiled: Compiled
    origin: str
    seconds: float


def lower(program: Program) -> jax.stages.Lowered:
    """Trace a program; nothing is compiled."""
    return jax.jit(program.function, donate_argnums=program.donate).lower(*program.arguments)


def compile_program(program: Program) -> jax.stages.Compiled:
    """Compile a program for the device that there is."""
    options = COMPILER_OPTIONS.get(jax.devices()[0].platform, {})
    return lower(program).compile(compiler_options=options)


class ProgramStore:
    """Builds programs; keeps them in `folder` when there is one."""

    def __init__(self, folder: Path | None, *, key: str) -> None:
        """`key` names all that programs of this store share: model, dtypes, shapes and that of `CompileEnvironment`."""
        self._folder = folder / "programs" / _digest(key.encode())[:32] if folder is not None else None

    def build(self, program: Program) -> Built:
        """The program, from the volume when it is there, else compiled and stored."""
        began = time.perf_counter()
        stored = self._load(program)
        if stored is not None:
            return Built(stored, "loaded", time.perf_counter() - began)
        compiled = compile_program(program)
        self._save(program, compiled)
        return Built(compiled, "compiled", time.perf_counter() - began)

    def fill(self, program: Program) -> str:
        """See that the program is on the volume, without loading it; where it came from: compiled or kept.

        Raises:
            CacheVolumeError: it cannot be stored, and storing it is what a compilation ahead of the start is for.
        """
        path = self._path(program)
        if path is None:
            raise CacheVolumeError("there is no compile cache to fill; say where it is: --compile-cache")
        if self._content(path) is not None:
            return "kept"
        self._save(program, compile_program(program))
        if self._content(path) is None:
            raise CacheVolumeError(
                f"{path.parent} does not take compiled programs; is it full, or read-only?"
            )
        return "compiled"

    def _load(self, program: Program) -> Compiled | None:
        path = self._path(program)
        if path is None or not path.is_file():
            return None
        payload = self._content(path)
        if payload is None:
            return None
        try:
            inputs = jax.tree_util.tree_structure((program.arguments, {}))
            outputs = jax.tree_util.tree_structure(program.result)
            # Without a list it would be loaded for every device that is there.
            devices = jax.devices()[: program.devices]
            loaded: Compiled = serialize_executable.deserialize_and_load(
                payload, inputs, outputs, execution_devices=devices
            )
        except Exception as error:  # whatever XLA or the volume does not like, compiling still works
            _log.warning("%s cannot be loaded (%s); compiling again", path, error)
            return None
        return loaded

    @staticmethod
    def _content(path: Path) -> bytes | None:
        """What a file holds of a program; None where it is damaged or not there."""
        if not path.is_file():
            return None
        try:
            content = path.read_bytes()
        except OSError as error:
            _log.warning("%s cannot be read (%s); compiling again", path, error)
            return None
        digest, payload = content[:64], content[64:]
        if _digest(payload).encode() != digest:
            _log.warning("%s is damaged; compiling again", path)
            return None
        return payload

    def _save(self, program: Program, compiled: jax.stages.Compiled) -> None:
        path = self._path(program)
        if path is None:
            return
        try:
            payload, _, _ = serialize_executable.serialize(compiled)
            path.parent.mkdir(parents=True, exist_ok=True)
            _sweep(path.parent)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=_UNFINISHED, delete=False) as file:
                work = Path(file.name)
                try:
                    file.write(_digest(payload).encode() + payload)
                    file.close()
                    work.rename(path)
                except BaseException:
                    work.unlink(missing_ok=True)
                    raise
        except (OSError, ValueError, pickle.PicklingError) as error:
            _log.warning("%s cannot be stored (%s); the next start compiles it again", path, error)

    def _path(self, program: Program) -> Path | None:
        if self._folder is None:
            return None
        # The shapes tell apart what the name does not: how the weights lie, and with it what computes.
        leaves = jax.tree_util.tree_leaves(program.arguments)
        shapes = _digest(repr((leaves, program.devices)).encode())
        return self._folder / f"{program.name}-{shapes[:16]}.xla"


def _sweep(folder: Path) -> None:
    """Remove what killed processes left half-written, or a crash loop would fill the volume; others' fresh files stay."""
    for left in folder.glob(f"{_UNFINISHED}*"):
        try:
            if time.time() - left.stat().st_mtime > _STALE_SECONDS:
                left.unlink()
        except OSError:
            continue  # another process was faster


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
