"""Starts daemons with a log and a record each, and stops them so that a recycled pid is never signalled.

A record holds the pid and the moment the process began. Only where both still match is a signal sent, through
a pidfd where the kernel has them, so that no other process can slip in between the check and the signal.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

MARK = "TIERWRIGHT_RUN_DIR"
"""Set in the environment of every daemon, so that one whose record was never written is still found."""


class ComponentError(RuntimeError):
    """A daemon died or did not become ready; the message ends with the last lines of its log."""


@dataclass(frozen=True)
class Process:
    """One daemon: its name within the cluster, its pid, and when it began (an opaque stamp, unique per boot)."""

    name: str
    pid: int
    began: str
    log: str


def log_path(run_dir: Path, name: str) -> Path:
    """The file that receives stdout and stderr of the daemon `name`."""
    return run_dir / "logs" / f"{name}.log"


def _record_path(run_dir: Path, name: str) -> Path:
    return run_dir / "processes" / f"{name}.json"


def start(
    run_dir: Path, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None
) -> Process:
    """Start `argv` in a session of its own and record it below `run_dir`.

    `env` is added to this process's environment. The daemon outlives its starter; output goes to `log_path`.
    Raises FileNotFoundError or PermissionError when the program cannot be run, and ComponentError when a
    daemon of that name is running already.
    """
    if (old := find(run_dir, name)) and alive(old):
        raise ComponentError(f"{name} is running already in {run_dir} as process {old.pid}")
    log, record = log_path(run_dir, name), _record_path(run_dir, name)
    for folder in (log.parent, record.parent):
        folder.mkdir(parents=True, exist_ok=True)
    program = str(argv[0])
    if not os.access(program, os.X_OK):
        raise FileNotFoundError(f"{program}: not there or not executable, so {name} cannot be started")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    # posix_spawn instead of Popen: nobody waits for a daemon, and Popen would warn about that when it is collected.
    pid = os.posix_spawn(
        program,
        [str(word) for word in argv],
        {**os.environ, **(env or {}), MARK: str(run_dir)},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    process = Process(name, pid, _began(pid) or "", str(log))
    partial = record.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(process)))
    partial.replace(record)
    return process


def current() -> Process:
    """This very process, as a record."""
    return Process("owner", os.getpid(), _began(os.getpid()) or "", "")


def find(run_dir: Path, name: str) -> Process | None:
    """The record of the daemon `name`, alive or not; None when there is none or it cannot be read."""
    try:
        return Process(**json.loads(_record_path(run_dir, name).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def load(run_dir: Path) -> list[Process]:
    """All recorded daemons below `run_dir`, in the order of their start."""
    files = sorted((run_dir / "processes").glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    found = (find(run_dir, file.stem) for file in files)
    return [process for process in found if process]


def alive(process: Process) -> bool:
    """Whether that very process still runs; a zombie and a recycled pid do not count."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    return bool(process.began) and _began(process.pid) == process.began


def stop(processes: Iterable[Process], grace_s: float = 10.0) -> None:
    """End the processes together: SIGTERM to all, SIGKILL after `grace_s` to those left; returns when none is."""
    left = [process for process in processes if alive(process)]
    for signum, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
        for process in left:
            _signal(process, signum)
        deadline = time.monotonic() + wait_s
        while (left := [process for process in left if alive(process)]) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not left:
            return
    raise ComponentError(f"still running after SIGKILL: {', '.join(f'{p.name} ({p.pid})' for p in left)}")


def forget(run_dir: Path, name: str) -> None:
    """Remove the record of a stopped daemon (its log stays)."""
    _record_path(run_dir, name).unlink(missing_ok=True)


def strays(run_dir: Path) -> list[Process]:
    """Processes that carry the mark of `run_dir`, recorded or not (Linux only, else empty).

    Finds a daemon whose starter was killed before it could write the record, and children that inherited the mark.
    """
    wanted = f"{MARK}={run_dir}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            marked = wanted in (folder / "environ").read_bytes().split(b"\0")
            name = (folder / "comm").read_text().strip()
        except OSError:
            continue
        pid = int(folder.name)
        if marked and pid != os.getpid() and (began := _began(pid)):
            found.append(Process(name, pid, began, ""))
    return found


def log_tail(process: Process, lines: int = 15) -> str:
    """The last lines of the daemon's log, or a word on why there are none."""
    try:
        text = Path(process.log).read_text(errors="replace").splitlines()[-lines:]
    except OSError as error:
        return f"(no log: {error})"
    return "\n".join(text) or "(the log is empty)"


def fail(process: Process, what: str) -> NoReturn:
    """Raise ComponentError that says `what` went wrong and shows the end of the daemon's log."""
    raise ComponentError(f"{process.name}: {what}\nlast lines of {process.log}:\n{log_tail(process)}")


def wait_until(
    check: Callable[[], bool],
    what: str,
    watched: Sequence[Process],
    deadline_s: float = 120.0,
    pause_s: float = 0.1,
) -> None:
    """Call `check` until it is true.

    Raises ComponentError when one of the `watched` daemons dies or the deadline passes; the first of them is the
    one whose log is shown then.
    """
    deadline = time.monotonic() + deadline_s
    while not check():
        for process in watched:
            if not alive(process):
                fail(process, f"ended while waiting for {what}")
        if time.monotonic() > deadline:
            if watched:
                fail(watched[0], f"{what} did not come within {deadline_s:g} s")
            raise ComponentError(f"{what} did not come within {deadline_s:g} s")
        time.sleep(pause_s)


def _began(pid: int) -> str | None:
    """When the process began, as the kernel counts it, with the boot's id; None when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None if Path("/proc/self/stat").exists() else _began_by_ps(pid)
    return None if fields[0] in "ZX" else f"{_boot_id()}/{fields[19]}"


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _began_by_ps(pid: int) -> str | None:
    found = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, began = found.stdout.strip().partition(" ")
    return began.strip() or None if state and state[0] not in "ZX" else None


def _signal(process: Process, signum: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        if not hasattr(os, "pidfd_open"):
            os.kill(process.pid, signum)
            return
        handle = os.pidfd_open(process.pid)
        try:
            if _began(process.pid) == process.began:
                signal.pidfd_send_signal(handle, signum)
        finally:
            os.close(handle)
