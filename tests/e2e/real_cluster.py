"""A cluster with real nodes for tests: its objects, `kubectl` for logs and exec, and the probe image."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.cluster.cluster import Cluster
from dev.cluster.images.image import build_image, load_image
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually

PROBE_IMAGE = "tierwright-probe:test"

Object = dict[str, Any]


@dataclass(frozen=True)
class RealCluster:
    """A running cluster with real nodes that know the probe image."""

    run_dir: Path
    kubeconfig: Path
    kubectl_program: Path

    @classmethod
    def of(cls, running: Cluster) -> "RealCluster":
        """A running cluster of dev.cluster, once its nodes know the probe image."""
        cluster = cls(running.run_dir, running.kubeconfig, running.kubectl)
        cluster.load_probe()
        return cluster

    @property
    def probe_context(self) -> Path:
        """The folder that the probe image is built from."""
        return Path(__file__).parent / "probe"

    def load_probe(self) -> None:
        """Build the probe image unless it is built, and import it into every node."""
        load_image(build_image(PROBE_IMAGE, self.probe_context, target="probe"), self.run_dir)

    def kubectl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator."""
        argv = [str(self.kubectl_program), f"--kubeconfig={self.kubeconfig}", *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)

    def execute(self, k8s: Kubernetes, pod: str, *command: str) -> str:
        """Standard output of a command in a pod.

        Raises:
            AssertionError: the command failed.
        """
        done = self.kubectl("-n", k8s.namespace, "exec", pod, "--", *command)
        assert done.returncode == 0, done.stderr
        return done.stdout


def probe_pod(
    name: str,
    pool: str = "",
    *,
    command: Sequence[str] = (),
    volumes: dict[str, str] | None = None,
    devices: dict[str, int] | None = None,
) -> Object:
    """A pod of the probe image in a pool, hardened as Tierwright's own are.

    ``volumes`` maps claim names to mount paths; ``devices`` goes into the limits.
    """
    container: Object = {
        "name": "probe",
        "image": PROBE_IMAGE,
        "ports": [{"containerPort": 8080}],
        "resources": {"limits": {key: str(count) for key, count in (devices or {}).items()}},
        "securityContext": {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": claim, "mountPath": path} for claim, path in (volumes or {}).items()],
    }
    if command:
        container["command"] = list(command)
    else:
        container["readinessProbe"] = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "probe"}},
        "spec": {
            "nodeSelector": {"karpenter.sh/nodepool": pool} if pool else {},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [
                {"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in volumes or {}
            ],
        },
    }


def claim(name: str, storage_class: str, mode: str, size: str = "1Gi") -> Object:
    """A PersistentVolumeClaim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": storage_class,
            "accessModes": [mode],
            "resources": {"requests": {"storage": size}},
        },
    }


def condition(item: Object, kind: str) -> Object:
    """A pod's condition of this type; empty when it has none."""
    found = [each for each in item.get("status", {}).get("conditions", []) if each["type"] == kind]
    return dict(found[0]) if found else {}


def ready(k8s: Kubernetes, *pods: str) -> list[Object]:
    """Wait until the pods are Ready and return them."""
    return [_wait_ready(k8s, pod) for pod in pods]


def gone(k8s: Kubernetes, kind: str, name: str) -> None:
    """Wait until the object is gone."""
    eventually(lambda: k8s.get(kind, name) is None, f"{kind} {name} to be gone", 60)


def _wait_ready(k8s: Kubernetes, name: str) -> Object:
    def look() -> Object:
        pod = k8s.must_get("Pod", name)
        assert condition(pod, "Ready").get("status") == "True", pod.get("status")
        return pod

    return eventually(look, f"pod {name} to be Ready", 90)
