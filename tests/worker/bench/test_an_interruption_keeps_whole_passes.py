"""Told to stop amid the gears, a run keeps what whole passes have measured, and nothing where there is none."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from bench.worker import own
from bench.worker.setup import Setup

# Stands for the benchmark's process: it writes what one pass gave, where it is told to, and goes on.
SLOW = """#!{python}
import pathlib, sys, time
target = pathlib.Path(sys.argv[sys.argv.index("--json") + 1])
if {writes}:
    target.write_text('{{"figures": {{"edit_speedup": 2.0}}}}')
(target.parent / "begun").touch()
time.sleep(600)
"""


def interrupt_once(begun: Path) -> None:
    """As Ctrl-C does, once the stand-in has begun."""
    end = time.monotonic() + 30
    while not begun.exists() and time.monotonic() < end:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("writes", [True, False])
def test_what_whole_passes_measured_is_kept(
    tmp_path: Path, writes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_text(SLOW.format(python=sys.executable, writes=writes), encoding="utf-8")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    (tmp_path / "gears.json").write_text('{"figures": "of an earlier run"}', encoding="utf-8")
    threading.Thread(target=interrupt_once, args=(tmp_path / "begun",)).start()
    setup = Setup(tmp_path / "model", tmp_path, 1)
    if writes:
        part = own.measure_gears(setup)
        assert part == {"figures": {"edit_speedup": 2.0}, "interrupted": True}
    else:
        with pytest.raises(KeyboardInterrupt):
            own.measure_gears(setup)
