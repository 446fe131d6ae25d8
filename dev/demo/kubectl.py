"""Runs kubectl and helm against one cluster for the demo, and waits for what the cluster must reach."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dev.cluster.machine.ports import free_port

T = TypeVar("T")


class CommandError(RuntimeError):
    """A command failed or a deadline passed; the message says which and what it printed."""


@dataclass(frozen=True)
class Tools:
    """The two programs and the cluster that they talk to."""

    kubectl_path: Path
    helm_path: Path
    kubeconfig: Path
    namespace: str

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """What kubectl prints.

        Raises:
            CommandError: it failed.
        """
        return self._run([str(self.kubectl_path), "--namespace", self.namespace, *words], stdin)

    def helm(self, *words: str) -> str:
        """What helm prints.

        Raises:
            CommandError: it failed.
        """
        return self._run([str(self.helm_path), *words], None)

    def objects(self, kind: str, selector: str = "") -> list[dict[str, Any]]:
        """All objects of the kind in the namespace that the label selector matches."""
        words = ["get", kind, "-o", "json", *(["-l", selector] if selector else [])]
        items: list[dict[str, Any]] = json.loads(self.kubectl(*words))["items"]
        return items

    def wait(self, look: Callable[[], T], what: str, deadline_s: float = 120.0) -> T:
        """Call ``look`` until it gives something true.

        Raises:
            CommandError: the deadline passed.
        """
        deadline = time.monotonic() + deadline_s
        while not (found := look()):
            if time.monotonic() > deadline:
                raise CommandError(
                    f"{what}: not within {deadline_s:.0f} s\n{self.kubectl('get', 'itier,pods,events')}"
                )
            time.sleep(0.25)
        return found

    @contextmanager
    def forward(self, service: str, port: int) -> Iterator[str]:
        """A URL on loopback that reaches the Service, while the context lasts."""
        local = free_port()
        command = [
            str(self.kubectl_path),
            "--namespace",
            self.namespace,
            "port-forward",
            f"service/{service}",
        ]
        with subprocess.Popen(
            [*command, f"{local}:{port}"],
            env=self._environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                self.wait(
                    lambda: _open(local) or process.poll() is not None, f"port-forward to {service}", 20
                )
                if process.poll() is not None:
                    raise CommandError(f"port-forward to {service} ended: {process.communicate()[1].strip()}")
                yield f"http://127.0.0.1:{local}"
            finally:
                process.terminate()

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def _run(self, command: list[str], stdin: str | None) -> str:
        done = subprocess.run(
            command, env=self._environment(), input=stdin, capture_output=True, text=True, check=False
        )
        if done.returncode:
            shown = " ".join([Path(command[0]).name, *command[1:]])
            raise CommandError(
                f"`{shown}` failed with {done.returncode}: {(done.stderr or done.stdout).strip()}"
            )
        return done.stdout


def _open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
