"""A daemon is stopped for certain, and a process that merely has its pid never is."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dev.cluster.machine import processes
from dev.cluster.machine.processes import ComponentError

SLEEP = shutil.which("sleep") or "/bin/sleep"
SHELL = shutil.which("sh") or "/bin/sh"


@pytest.fixture
def run_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    processes.stop(processes.load(tmp_path), grace_s=0)
    processes.stop(processes.strays(tmp_path), grace_s=0)


def test_a_daemon_runs_until_it_is_stopped(run_dir: Path) -> None:
    daemon = processes.start(run_dir, "sleeper", [SLEEP, "600"])
    assert processes.alive(daemon)
    assert processes.load(run_dir) == [daemon]
    processes.stop([daemon])
    assert not processes.alive(daemon)
    with pytest.raises(ProcessLookupError):
        os.kill(daemon.pid, 0)


def test_a_recycled_pid_is_neither_alive_nor_signalled(run_dir: Path) -> None:
    innocent = subprocess.Popen([SLEEP, "600"])
    try:
        stale = processes.Process("kubelet", innocent.pid, "another-boot/1", "")
        assert not processes.alive(stale)
        processes.stop([stale])
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


def test_a_daemon_that_ignores_sigterm_is_killed(run_dir: Path) -> None:
    daemon = processes.start(
        run_dir, "stubborn", [SHELL, "-c", "trap '' TERM; echo up; while :; do sleep 1; done"]
    )
    processes.wait_until(lambda: "up" in processes.log_tail(daemon), "the trap", [daemon], 10)
    processes.stop([daemon], grace_s=0.2)
    assert not processes.alive(daemon)


def test_a_dead_child_that_nobody_waited_for_is_not_alive(run_dir: Path) -> None:
    daemon = processes.start(run_dir, "short", [SHELL, "-c", "exit 3"])
    deadline = time.monotonic() + 10
    while processes.alive(daemon):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_second_daemon_of_a_name_is_refused_while_the_first_runs(run_dir: Path) -> None:
    first = processes.start(run_dir, "etcd", [SLEEP, "600"])
    with pytest.raises(ComponentError, match=str(first.pid)):
        processes.start(run_dir, "etcd", [SLEEP, "600"])
    processes.stop([first])
    assert processes.alive(processes.start(run_dir, "etcd", [SLEEP, "600"]))


def test_a_daemon_outlives_the_process_that_started_it(run_dir: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from dev.cluster.machine import processes;"
        f"processes.start(Path({str(run_dir)!r}), 'sleeper', [{SLEEP!r}, '600'])"
    )
    root = Path(__file__).parents[3]
    subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
    )
    daemon = processes.find(run_dir, "sleeper")
    assert daemon is not None
    assert processes.alive(daemon)
    processes.stop([daemon])
    assert not processes.alive(daemon)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="marks are looked for in /proc")
def test_a_daemon_without_a_record_is_found_by_its_mark(run_dir: Path) -> None:
    daemon = processes.start(run_dir, "sleeper", [SLEEP, "600"])
    processes.forget(run_dir, "sleeper")
    assert processes.load(run_dir) == []
    deadline = time.monotonic() + 10
    while [stray.pid for stray in processes.strays(run_dir)] != [daemon.pid]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert processes.strays(run_dir / "other") == []


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"name": "etcd"})])
def test_an_unreadable_record_is_passed_over(run_dir: Path, text: str) -> None:
    folder = run_dir / "processes"
    folder.mkdir()
    (folder / "etcd.json").write_text(text)
    assert processes.find(run_dir, "etcd") is None
    assert processes.load(run_dir) == []


def test_a_program_that_is_not_there_is_named(run_dir: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"/no/such/program.*etcd"):
        processes.start(run_dir, "etcd", ["/no/such/program"])


def test_waiting_for_a_daemon_that_dies_shows_the_end_of_its_log(run_dir: Path) -> None:
    daemon = processes.start(run_dir, "etcd", [SHELL, "-c", "echo the disk is full >&2; exit 1"])
    with pytest.raises(
        ComponentError, match=r"(?s)etcd: ended while waiting for readiness.*the disk is full"
    ):
        processes.wait_until(lambda: False, "readiness", [daemon], 10)


def test_waiting_ends_at_the_deadline_and_says_for_what(run_dir: Path) -> None:
    daemon = processes.start(run_dir, "etcd", [SHELL, "-c", "echo starting; exec sleep 600"])
    with pytest.raises(ComponentError, match=r"(?s)etcd: readiness did not come within 0.5 s.*starting"):
        processes.wait_until(lambda: False, "readiness", [daemon], 0.5)


def test_this_process_knows_itself() -> None:
    assert processes.alive(processes.current())
    assert not processes.alive(replace(processes.current(), began="another-boot/1"))


def test_a_process_started_in_another_session_gets_no_interrupt_of_ours(run_dir: Path) -> None:
    daemon = processes.start(run_dir, "sleeper", [SLEEP, "600"])
    # Ctrl-C goes to the process group in the terminal's foreground.
    assert os.getpgid(daemon.pid) != os.getpgid(0)
    assert os.getsid(daemon.pid) == daemon.pid
