"""Talks to one node's containerd through `ctr`: imports images, removes containers, knows what is imported already."""

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.cluster.machine.mounts import remove_tree
from dev.cluster.machine.system_path import environment
from dev.cluster.nodes.node_config import NodeFiles

_CLEAN = "tierwright-clean"
_IMPORTED = "tierwright-imported.json"


class ContainerdError(RuntimeError):
    """`ctr` reported a failure; the message holds its words."""


@dataclass(frozen=True)
class Containerd:
    """The containerd of one node. Its image store outlives the cluster, so images are imported once."""

    node: str
    files: NodeFiles

    def prepare_store(self) -> None:
        """Keep the image store of an earlier run if that run ended in order, else start from an empty one.

        After a crash the store still lists containers of a cluster that is gone.
        """
        clean = self.files.store / _CLEAN
        if not clean.exists():
            remove_tree(self.files.store)
            self.files.store.mkdir(parents=True)
        clean.unlink(missing_ok=True)

    def mark_clean(self) -> None:
        """Say that the store lists no containers, to be called after `remove_containers`."""
        (self.files.store / _CLEAN).touch()

    def answers(self) -> bool:
        """Whether containerd serves requests."""
        return self._ctr(["version"]).returncode == 0

    def import_image(self, archive: Path, reference: str) -> bool:
        """Import a docker-archive whose image is called `reference`; False when this very file is there already."""
        imported = self._imported()
        stamp = f"{archive.name} {archive.stat().st_size} {archive.stat().st_mtime_ns}"
        if imported.get(reference) == stamp:
            return False
        done = self._ctr(["images", "import", str(archive)])
        if done.returncode:
            raise ContainerdError(
                f"importing {archive.name} into node {self.node} failed: {done.stderr.strip()}"
            )
        imported = {**self._imported(), reference: stamp}
        (self.files.store / _IMPORTED).write_text(json.dumps(imported, indent=1))
        return True

    def remove_containers(self, deadline_s: float = 10.0) -> bool:
        """Remove all containers from the store; whether none is left. Their processes must have been killed."""
        deadline = time.monotonic() + deadline_s
        while time.monotonic() < deadline:
            tasks, containers = self._names(["tasks", "ls", "-q"]), self._names(["containers", "ls", "-q"])
            if not tasks and not containers:
                return self.answers()
            if tasks:
                self._ctr(["tasks", "rm", "-f", *tasks])
            if containers:
                self._ctr(["containers", "rm", *containers])
        return False

    def _imported(self) -> dict[str, str]:
        try:
            found = json.loads((self.files.store / _IMPORTED).read_text())
        except (OSError, ValueError):
            return {}
        return {str(key): str(value) for key, value in found.items()}

    def _names(self, argv: Sequence[str]) -> list[str]:
        return self._ctr(argv).stdout.split()

    def _ctr(self, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        command = ["ctr", "-a", str(self.files.socket), "-n", "k8s.io", *argv]
        try:
            return subprocess.run(
                command, env=environment(), capture_output=True, text=True, check=False, timeout=300
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "", "no answer within 300 s")
