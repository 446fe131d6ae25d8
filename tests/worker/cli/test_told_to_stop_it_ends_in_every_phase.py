"""SIGTERM ends the command at once in every phase, also where it is a container's first process; a defect ends it as well."""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.worker.cli.processes import ROOT, process_of
from tests.worker.gguf_files import write_gguf
from tierwright_worker.loading.converted import converted_folder

FIRST = ("unshare", "--fork", "--pid", "--kill-child")
own_pids = pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run([*FIRST, "true"], capture_output=True, check=False).returncode != 0,
    reason="being the first process needs a process namespace of one's own",
)
# A defect, while a thread that nobody ends still runs.
DEFECT = """
import sys, threading, time
from tierwright_worker import cli

def breaks(_):
    threading.Thread(target=time.sleep, args=(60,)).start()
    raise ZeroDivisionError("of all\\nthings")

cli._COMMANDS["fetch"] = breaks
sys.argv = ["tierwright-worker", "fetch", "--source", "file:///x", "--to", "y"]
cli.run()
"""


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it did not come to hold in time"
        time.sleep(0.01)


def child_of(pid: int) -> int:
    """The one child of a process."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    until(lambda: bool(children.read_text().split()))
    return int(children.read_text().split()[0])


@pytest.mark.parametrize("before", [(), pytest.param(FIRST, marks=own_pids)])
def test_a_fetch_that_waits_for_its_source_ends_at_once(tmp_path: Path, before: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hub:
        hub.settimeout(60)
        words = ("fetch", "--source", "hf://owner/repo", "--to", str(tmp_path / "to"))
        process = subprocess.Popen(
            [*before, sys.executable, "-m", "tierwright_worker", *words],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT / "worker"),
                "HF_ENDPOINT": f"http://127.0.0.1:{hub.getsockname()[1]}",
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            connection, _ = hub.accept()
            with connection:
                os.kill(child_of(process.pid) if before else process.pid, signal.SIGTERM)
                _, errors = process.communicate(timeout=10)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 143
    assert errors.splitlines()[-1] == "tierwright-worker: told to stop before it was done"


@pytest.mark.parametrize("command", ["serve", "compile"])
def test_a_worker_that_waits_for_its_model_ends_at_once(tmp_path: Path, command: str) -> None:
    write_gguf("llama", tmp_path / "it.gguf")
    cache = tmp_path / "cache"
    folder = converted_folder(tmp_path / "it.gguf", cache, "float32")
    shutil.rmtree(folder)
    lock = folder.with_suffix(".lock")
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        caches = ("--weights-cache", cache, "--compile-cache", cache)
        with process_of(
            "-m", "tierwright_worker", command, "--model", tmp_path / "it.gguf", *caches
        ) as process:
            opened = Path(f"/proc/{process.pid}/fd")
            until(lambda: any(path.exists() and path.samefile(lock) for path in opened.iterdir()))
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=10)
    assert process.returncode == 143, errors
    assert errors.splitlines()[-1] == "tierwright-worker: told to stop before it was done"


def test_a_defect_ends_the_process_with_one_last_line(tmp_path: Path) -> None:
    with process_of("-c", DEFECT) as process:
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 70
    last = errors.splitlines()[-1]
    assert last == "tierwright-worker: a defect of the worker itself: ZeroDivisionError: of all things"
    assert "Traceback" in errors
