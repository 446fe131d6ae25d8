"""`compile` needs no weights, stores every program that `serve` then loads, and says when it cannot."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.worker.cli.processes import ROOT, process_of
from tests.worker.tiny_folder import write_tiny_folder

SHAPES = ("--max-model-len", "256", "--max-num-seqs", "2", "--speculative-tokens", "2")


def run(command: str, folder: Path, cache: Path, *more: str) -> tuple[int, str]:
    """The command's exit status and what it said."""
    with process_of(
        "-m", "tierwright_worker", command, "--model", folder, "--compile-cache", cache, *SHAPES, *more
    ) as process:
        _, errors = process.communicate(timeout=300)
        return process.returncode, errors


def start(folder: Path, cache: Path, *more: str) -> str:
    """What a server said until it was warm."""
    said = ""
    with process_of(
        "-m",
        "tierwright_worker",
        "serve",
        "--model",
        folder,
        "--compile-cache",
        cache,
        *SHAPES,
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        *more,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said += line
            if " warm in " in line and "draft model" not in line:
                return said
    raise AssertionError(said)


def test_a_server_loads_all_that_was_compiled_without_weights(tmp_path: Path) -> None:
    folder, cache = write_tiny_folder(tmp_path / "model"), tmp_path / "cache"
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.unlink()
    status, said = run("compile", folder, cache)
    assert status == 0, said
    assert re.search(r"model: all \d+ programs are there in [\d.]+ s: {'compiled': \d+}", said)
    status, said = run("compile", folder, cache)
    assert status == 0
    assert re.search(r"in [\d.]+ s: {'kept': \d+}", said)
    weights.write_bytes(content)
    said = start(folder, cache)
    assert re.search(r"programs {'loaded': \d+};", said), said


def test_the_draft_models_programs_are_filled_as_well(tmp_path: Path) -> None:
    folder, cache = write_tiny_folder(tmp_path / "model"), tmp_path / "cache"
    draft = ("--speculation-method", "draft", "--speculative-model", str(folder))
    status, said = run("compile", folder, cache, *draft)
    assert status == 0, said
    assert "draft model: all" in said
    said = start(folder, cache, *draft)
    assert len(re.findall(r"programs {'loaded': \d+}", said)) == 2, said


def test_a_cache_that_is_not_named_or_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    folder = write_tiny_folder(tmp_path / "model")
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    status, said = run("compile", folder, blocked)
    assert status == 73
    assert "does not take compiled programs" in said.splitlines()[-1]
    with process_of("-m", "tierwright_worker", "compile", "--model", folder) as process:
        _, said = process.communicate(timeout=120)
    assert process.returncode == 64
    assert "say where it is: --compile-cache" in said


def test_flags_of_the_compiler_in_the_environment_make_another_key() -> None:
    code = "from tierwright_worker.engine.program_key import compile_environment as read; print(read().key())"
    keys = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(ROOT / "worker"), variable: value},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for variable, value in (
            ("XLA_FLAGS", ""),
            ("XLA_FLAGS", "--xla_cpu_enable_fast_math=false"),
            ("NEURON_CC_FLAGS", "--auto-cast=none"),
        )
    }
    assert len(keys) == 3
