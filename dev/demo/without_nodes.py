"""Runs the operator as a process beside a cluster that has no real node to run it in."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.cluster.machine.ports import free_port
from dev.demo.kubectl import CommandError, Tools

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def operator_beside(tools: Tools, folder: Path) -> Iterator[None]:
    """Install the CRD and run the operator as this user until the context ends.

    Raises:
        CommandError: the CRD was refused.
    """
    tools.kubectl("apply", "-f", str(ROOT / "crds"))
    tools.kubectl(
        "wait", "--for=condition=Established", "crd", "inferencetiers.tierwright.dev", "--timeout=60s"
    )
    environment = {
        **os.environ,
        "KUBECONFIG": str(tools.kubeconfig),
        "PYTHONPATH": str(ROOT / "operator"),
        "TIERWRIGHT_HTTP_PORT": str(free_port()),
        "TIERWRIGHT_HTTP_HOST": "127.0.0.1",
    }
    log = folder / "operator.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tierwright", "operator"], env=environment, stdout=output, stderr=output
        )
    try:
        yield
        if process.poll() is not None:
            raise CommandError(f"the operator ended with {process.returncode}; its log is {log}")
    finally:
        process.terminate()
        process.wait(timeout=30)
