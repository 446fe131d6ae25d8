"""Tierwright on a cluster with real nodes: images, the chart installed by helm, tiers that run the engine simulator."""

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dev.cluster import cluster as clusters
from dev.cluster.images.image import load_image
from dev.demo.install import ENGINE_IMAGE, build_images, install, uninstall
from dev.demo.kubectl import Tools
from tests.e2e.real_cluster import RealCluster
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually

SYSTEM: Final = "tierwright-system"
OPERATOR_USER: Final = f"system:serviceaccount:{SYSTEM}:tierwright-operator"
ENGINE_PORT: Final = 8000

Object = dict[str, Any]


@dataclass(frozen=True)
class Installation:
    """A cluster that Tierwright is installed on, as its administrator sees it."""

    cluster: RealCluster
    helm_program: Path

    def tools(self, namespace: str) -> Tools:
        """kubectl, helm and port-forwards, working in one namespace; a command that fails raises CommandError."""
        return Tools(self.cluster.kubectl_program, self.helm_program, self.cluster.kubeconfig, namespace)

    @property
    def audit_log(self) -> Path:
        """The API server's audit log."""
        return clusters.attach(self.cluster.run_dir.name).audit_log


def images_in_nodes(cluster: RealCluster) -> None:
    """Build the project's own images unless they are built, and import them into every node."""
    for image in build_images():
        load_image(image, cluster.run_dir)


@contextmanager
def installed(cluster: RealCluster) -> Iterator[Installation]:
    """Tierwright installed by helm, and uninstalled when the context ends."""
    found = Installation(cluster, clusters.attach(cluster.run_dir.name).helm)
    tools = found.tools(SYSTEM)
    install(tools, SYSTEM)
    try:
        yield found
    finally:
        uninstall(tools, SYSTEM)


def tier(name: str, *, env: Mapping[str, str] | None = None, **fields: Any) -> Object:
    """A tier of the engine simulator on CPU in the pool `standard`.

    Args:
        name: of the tier; its model has the same.
        env: ``ENGINE_SIM_*`` variables, written without that prefix.
        fields: whole fields of the spec that replace those of this tier.
    """
    settings = {"START_SECONDS": "0.2", **(env or {})}
    spec: Object = {
        "model": {"name": f"models/{name}", "source": "file:///models/some"},
        "speed": "standard",
        "replicas": 1,
        "engine": {
            "type": "vllm",
            "image": ENGINE_IMAGE,
            "version": "0.32.0",
            "maxModelLen": 4096,
            "batching": {"maxSequences": 16},
            "env": [{"name": f"ENGINE_SIM_{key}", "value": value} for key, value in settings.items()],
        },
        "hardware": {
            "accelerator": "cpu",
            "nodePool": {"matchLabels": {"karpenter.sh/nodepool": "standard"}},
            "resources": {"cpu": "20m", "memory": "256Mi", "sharedMemory": "16Mi"},
        },
        "rollout": {"drainTimeout": "1s", "startupTimeout": "1m"},
    }
    return {
        "apiVersion": "tierwright.dev/v1alpha1",
        "kind": "InferenceTier",
        "metadata": {"name": name},
        "spec": {**spec, **fields},
    }


def engine(changes: Object, env: Mapping[str, str] | None = None) -> Object:
    """The engine of ``tier`` with some of its fields changed."""
    return {**tier("any", env=env)["spec"]["engine"], **changes}


def patched_engine(**fields: Any) -> Object:
    """A podTemplate that sets fields of the engine's container."""
    return {"spec": {"containers": [{"name": "engine", **fields}]}}


def told(k8s: Kubernetes, name: str, reason: str, *, kind: str = "Ready", deadline_s: float = 90) -> str:
    """The message of the tier's condition once it has this reason."""

    def look() -> str:
        condition = k8s.condition(name, kind)
        assert condition["reason"] == reason, (condition["reason"], condition["message"])
        return str(condition["message"])

    return eventually(look, f"{name}: {kind} with reason {reason}", deadline_s)


def serves(k8s: Kubernetes, name: str, *, deadline_s: float = 90) -> None:
    """Wait until the tier is Ready and nothing is left to do for its present spec."""

    def look() -> bool:
        live = k8s.must_get("InferenceTier", name)
        conditions = {each["type"]: each for each in live.get("status", {}).get("conditions", [])}
        seen = [
            (kind, conditions[kind]["status"], conditions[kind]["reason"], conditions[kind]["message"])
            for kind in ("Ready", "Reconciling")
        ]
        assert [each[1] for each in seen] == ["True", "False"], seen
        assert live["status"]["observedGeneration"] == live["metadata"]["generation"]
        return True

    eventually(look, f"{name} serves its present spec", deadline_s)


def pods(k8s: Kubernetes, name: str) -> list[Object]:
    """The tier's pods that are not on their way out."""
    found = k8s.list("Pod", f"tierwright.dev/tier={name}")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def argument(pod: Object, name: str) -> str:
    """The value of an argument of the pod's engine; ValueError when it has none of that name."""
    words: list[str] = pod["spec"]["containers"][0]["args"]
    return words[words.index(name) + 1]


def applied(k8s: Kubernetes, tiers: Iterable[Object]) -> None:
    """Apply all of a module's tiers at once, so that they start side by side."""
    for each in tiers:
        k8s.apply(each)


class Readiness:
    """Everything that a tier's Ready condition has ever been in a namespace, by a watch that misses no status."""

    def __init__(self, installation: Installation, namespace: str, file: Path) -> None:
        """Start to watch; what is written goes to the file."""
        self._file = file
        ready = '{.status.conditions[?(@.type=="Ready")].status}'
        cluster = installation.cluster
        with file.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    *(str(cluster.kubectl_program), f"--kubeconfig={cluster.kubeconfig}", "-n", namespace),
                    *("get", "itier", "--watch", "-o", f'jsonpath={{.metadata.name}} {ready}{{"\\n"}}'),
                ],
                stdout=output,
                stderr=subprocess.DEVNULL,
            )

    def of(self, name: str) -> list[str]:
        """The statuses so far: True, False, or nothing where there was no condition yet."""
        assert self._process.poll() is None, "the watch has ended"
        lines = self._file.read_text(encoding="utf-8").splitlines()
        return [line.partition(" ")[2] for line in lines if line.partition(" ")[0] == name]

    def stop(self) -> None:
        """End the watch."""
        self._process.terminate()
        self._process.wait(timeout=10)
