"""The control plane is up within 15 s once it is built; how long it took is always told, and judged on an idle machine.

Nothing else of these tests runs meanwhile, but somebody else may use the machine: then the figures say so and judge nothing.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from dev.cluster import cluster as clusters
from dev.cluster.programs import source

LIMIT_S: Final = 15.0
STARTS: Final = 3
IDLE: Final = 0.25
"""Share of the processors that others may use."""


def used_share(seconds: float = 1.0) -> float:
    """The share of all processors' time that was not idle during these seconds, from the kernel's counters; 0..1."""
    idle, total = _processor_time()
    time.sleep(seconds)  # the measurement itself
    later_idle, later_total = _processor_time()
    return 1 - (later_idle - idle) / max(1, later_total - total)


def _processor_time() -> tuple[int, int]:
    """Ticks since boot: idle (waiting for a disk included), and all. See proc_stat(5)."""
    fields = [
        int(word) for word in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
    ]
    return fields[3] + fields[4], sum(fields)


@pytest.mark.usefixtures("real_nodes_possible")
def test_the_control_plane_is_up_in_fifteen_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    source.programs()
    took: list[float] = []
    used = [used_share()]
    for _ in range(STARTS):
        began = time.monotonic()
        with clusters.cluster(f"timed-{os.getpid()}", nodes="none", use_given=False) as running:
            took.append(round(time.monotonic() - began, 2))
            assert running.api().ready()
        used.append(used_share())
    measured = {
        "seconds": took,
        "limit": LIMIT_S,
        "processors": os.cpu_count(),
        "used by others": [round(share, 2) for share in used],
        "idle": max(used) < IDLE,
    }
    with capsys.disabled():
        sys.stdout.write(f"\ncontrol plane up: {json.dumps(measured)}\n")
    if measured["idle"]:
        assert max(took) <= LIMIT_S, measured
