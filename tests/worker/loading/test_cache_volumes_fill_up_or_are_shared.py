"""Cache volumes that are full, read-only, shared by engines that start at once, or hold what a killed one left."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.worker.gguf_files import write_gguf
from tests.worker.loading.opening import opens
from tierwright_worker.loading.converted import converted_folder

ROOT = Path(__file__).resolve().parents[3]
CONVERT = """
import sys
from pathlib import Path
from tierwright_worker.errors import WorkerError
from tierwright_worker.loading.converted import converted_folder
try:
    print(converted_folder(Path(sys.argv[1]), Path(sys.argv[2]), "float32"))
except WorkerError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_status)
"""
own_mounts = pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0,
    reason="mounting a small volume needs a mount namespace of one's own",
)


def convert(gguf: Path, cache: Path, *before: str) -> "subprocess.Popen[str]":
    """A process that converts; `before`: words in front of its command."""
    return subprocess.Popen(
        [*before, sys.executable, "-c", CONVERT, str(gguf), str(cache)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "worker")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@own_mounts
@pytest.mark.parametrize(("options", "says"), [("size=64k", "is it full?"), ("ro", "must be writable")])
def test_a_volume_that_cannot_take_the_converted_model_is_named(
    options: str, says: str, tmp_path: Path
) -> None:
    write_gguf("llama", tmp_path / "it.gguf")
    cache = tmp_path / "cache"
    cache.mkdir()
    script = f'mount -t tmpfs -o {options} none "{cache}" && exec "$@"'
    _, errors = convert(
        tmp_path / "it.gguf", cache, "unshare", "--mount", "sh", "-c", script, "sh"
    ).communicate(timeout=60)
    assert says in errors
    assert "Traceback" not in errors


@own_mounts
def test_a_read_only_volume_that_holds_the_model_is_enough(tmp_path: Path) -> None:
    write_gguf("llama", tmp_path / "it.gguf")
    cache = tmp_path / "cache"
    folder = converted_folder(tmp_path / "it.gguf", cache, "float32")
    script = f'mount --bind "{cache}" "{cache}" && mount -o remount,bind,ro "{cache}" && exec "$@"'
    process = convert(tmp_path / "it.gguf", cache, "unshare", "--mount", "sh", "-c", script, "sh")
    output, errors = process.communicate(timeout=60)
    assert output.strip() == str(folder), errors


def test_processes_that_start_at_once_convert_once(tmp_path: Path) -> None:
    write_gguf("llama", tmp_path / "it.gguf")
    processes = [convert(tmp_path / "it.gguf", tmp_path / "cache") for _ in range(3)]
    said = {process.communicate(timeout=120)[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(said) == 1
    folders = [path.name for path in (tmp_path / "cache" / "converted").iterdir() if path.is_dir()]
    assert folders == [Path(said.pop()).name]


def test_what_a_killed_conversion_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    write_gguf("llama", tmp_path / "it.gguf")
    cache = tmp_path / "cache"
    left = cache / "converted"
    process = convert(tmp_path / "it.gguf", cache)
    deadline = time.monotonic() + 60
    while not list(left.glob(".converting-*")) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    assert opens(tmp_path / "it.gguf")
    assert list(left.glob(".converting-*")) == []
    assert len([path for path in left.iterdir() if path.is_dir()]) == 1
