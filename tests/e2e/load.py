"""Bounded load on a tier from a pod beside it, and everything that its number of replicas ever was."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.e2e.installation import ENGINE_PORT, Installation
from tests.e2e.real_cluster import Object, probe_pod, ready
from tests.support.kubernetes import Kubernetes

_SOURCE: Final = Path(__file__).with_name("load_generator.py")
_FOLDER: Final = "/dev/shm"  # noqa: S108 - of the pod, whose root file system is read-only
_LONGEST_S: Final = 900


@dataclass(frozen=True)
class Answered:
    """What one request met; times in seconds."""

    at: float
    """When it was sent, by the clock of the machine."""
    first_token: float = 0.0
    per_token: float = 0.0
    tokens: int = 0
    error: str = ""

    def meets(self, first_token: float, per_token: float) -> bool:
        """Whether it kept both objectives."""
        return not self.error and self.first_token <= first_token and self.per_token <= per_token


class Load:
    """A pod that sends requests to one address."""

    def __init__(
        self,
        installation: Installation,
        k8s: Kubernetes,
        tier: str,
        *,
        tokens: int,
        most: int,
        name: str = "",
        address: str = "",
    ) -> None:
        """Start the pod; it sends nothing yet, and never more than ``most`` requests. ``address`` is the tier's Service unless given."""
        self._execute = installation.cluster.execute
        self._k8s = k8s
        self.name = name or f"load-{tier}"
        where = address or f"{tier}.{k8s.namespace}.svc.cluster.local:{ENGINE_PORT}"
        words = [where, f"models/{tier}", _FOLDER, str(most), str(tokens)]
        pod: Object = probe_pod(
            self.name, "standard", command=["python3", "-c", _SOURCE.read_text(encoding="utf-8"), *words]
        )
        pod["spec"] |= {"restartPolicy": "Never", "activeDeadlineSeconds": _LONGEST_S}
        k8s.create(pod)

    def wait_ready(self) -> None:
        """Wait until the pod runs."""
        ready(self._k8s, self.name)

    def rate(self, per_second: float) -> None:
        """Send at this rate from now on."""
        self._execute(self._k8s, self.name, "sh", "-c", f"echo {per_second:g} > {_FOLDER}/rate")

    def results(self) -> list[Answered]:
        """All requests that have ended so far."""
        said = self._execute(self._k8s, self.name, "sh", "-c", f"cat {_FOLDER}/results 2>/dev/null || true")
        return [_answered(json.loads(line)) for line in said.splitlines() if line.endswith("}")]

    def errors(self) -> list[Answered]:
        """The requests that failed so far."""
        return [each for each in self.results() if each.error]


_RUNNING: Final = """
import urllib.request
lines = urllib.request.urlopen("http://127.0.0.1:8000/metrics", timeout=5).read().decode().splitlines()
print(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("vllm:num_requests_running")))
"""


def running(installation: Installation, k8s: Kubernetes, pod: str) -> float:
    """Requests that the pod's engine works on, by its own metrics."""
    return float(installation.cluster.execute(k8s, pod, "python3", "-c", _RUNNING))


def _answered(line: dict[str, Any]) -> Answered:
    return Answered(
        line["at"],
        line.get("first", 0.0),
        line.get("each", 0.0),
        line.get("tokens", 0),
        line.get("error", ""),
    )


class ReplicaHistory:
    """Every number of replicas that the workloads of a namespace were ever asked for, by a watch that misses none."""

    def __init__(self, installation: Installation, namespace: str, file: Path) -> None:
        """Start to watch; what is seen goes to the file."""
        self._file = file
        cluster = installation.cluster
        with file.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    *(str(cluster.kubectl_program), f"--kubeconfig={cluster.kubeconfig}", "-n", namespace),
                    *("get", "deployments", "--watch", "-o"),
                    'jsonpath={.metadata.name} {.spec.replicas}{"\\n"}',
                ],
                stdout=output,
                stderr=subprocess.DEVNULL,
            )

    def of(self, name: str) -> list[int]:
        """The numbers of one workload, in order, each once for as long as it stood."""
        assert self._process.poll() is None, "the watch has ended"
        lines = [line.split() for line in self._file.read_text(encoding="utf-8").splitlines()]
        seen = [int(line[1]) for line in lines if len(line) == 2 and line[0] == name]
        return [number for place, number in enumerate(seen) if place == 0 or seen[place - 1] != number]

    def stop(self) -> None:
        """End the watch."""
        self._process.terminate()
        self._process.wait(timeout=10)
