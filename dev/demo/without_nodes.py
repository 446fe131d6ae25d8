"""Runs the operator as a process beside a cluster that has no real node to run it in."""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.cluster.machine.ports import free_port
from dev.demo.kubectl import CommandError, Tools

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def operator_beside(tools: Tools, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Install the CRD and run the operator as this user until the context ends; it is ready when the context begins.

    Raises:
        CommandError: the CRD was refused, or the operator ended or did not become ready.
    """
    tools.kubectl("apply", "-f", str(ROOT / "crds"))
    tools.kubectl(
        "wait", "--for=condition=Established", "crd", "inferencetiers.tierwright.dev", "--timeout=60s"
    )
    port = free_port()
    environment = {
        **os.environ,
        "KUBECONFIG": str(tools.kubeconfig),
        "PYTHONPATH": str(ROOT / "operator"),
        "TIERWRIGHT_HTTP_PORT": str(port),
        "TIERWRIGHT_HTTP_HOST": "127.0.0.1",
    }
    log = folder / "operator.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tierwright", "operator"], env=environment, stdout=output, stderr=output
        )
    try:
        tools.wait(lambda: _is_ready(process, port, log), "the operator is ready", 60)
        yield process
        _check_alive(process, log)
    finally:
        process.terminate()
        process.wait(timeout=30)


def _is_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> bool:
    _check_alive(process, log)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _check_alive(process: subprocess.Popen[bytes], log: Path) -> None:
    """The log goes with the cluster, so its end is told."""
    if process.poll() is not None:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:])
        raise CommandError(f"the operator ended with {process.returncode}:\n{tail}")
