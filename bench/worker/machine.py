"""What machine it is, and how much of it other processes used while something was measured. Linux."""

import os
import platform
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Above this share of the CPUs in others' hands a figure is no more than an impression.
BUSY_SHARE = 0.05
_CPU_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")


def machine_facts() -> dict[str, Any]:
    """Processor, cores, memory, system and the versions that matter."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    fields: dict[str, str] = {}
    for line in cpuinfo.split("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    flags = fields.get("flags", "").split()
    return {
        "cpu": fields.get("model name", platform.processor()),
        "cpu_family": fields.get("cpu family", ""),
        "cpu_model": fields.get("model", ""),
        "cpu_flags": [flag for flag in _CPU_FLAGS if flag in flags],
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "jax": version("jax"),
    }


def commit() -> str:
    """The revision that is measured, `+` behind it where files differ from it; empty outside a repository."""
    here = Path(__file__).parent
    head = _git("rev-parse", "--short=12", "HEAD", at=here)
    changed = _git("status", "--porcelain", "--", ":/worker", at=here)
    return f"{head}+" if head and changed else head


def _git(*words: str, at: Path) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=at, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


@dataclass(slots=True)
class Meanwhile:
    """What passed while something was measured; set at its end. `others`: their share of all CPUs, 0 to 1."""

    seconds: float = 0.0
    others: float = 0.0

    @property
    def busy(self) -> bool:
        """Whether others used so much that the figures are no more than an impression."""
        return self.others > BUSY_SHARE


@contextmanager
def watched() -> Iterator[Meanwhile]:
    """Watch the machine; children must be ended inside, or what they used counts as others'."""
    meanwhile = Meanwhile()
    began, busy, own = time.perf_counter(), _busy_seconds(), _own_seconds()
    yield meanwhile
    meanwhile.seconds = time.perf_counter() - began
    used = _busy_seconds() - busy - (_own_seconds() - own)
    meanwhile.others = min(1.0, max(0.0, used / (meanwhile.seconds * (os.cpu_count() or 1))))


def busy_seconds(stat: str, ticks: int) -> float:
    """Seconds of CPU that all processes and the host have used, out of /proc/stat; `ticks` per second."""
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(int, stat.splitlines()[0].split()[1:])
    return (user + nice + system + irq + softirq + steal) / ticks


def _busy_seconds() -> float:
    return busy_seconds(Path("/proc/stat").read_text(encoding="ascii"), os.sysconf("SC_CLK_TCK"))


def _own_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
