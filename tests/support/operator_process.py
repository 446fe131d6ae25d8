"""Runs the operator as a process of its own, under the shipped role alone, the way the chart installs it."""

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dev.cluster.api import Api
from dev.cluster.machine.ports import free_port
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "tierwright-system"
RBAC_KINDS = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}


@dataclass(frozen=True)
class OperatorProcess:
    """A running operator: its process, its user name at the API server, its HTTP port and its log file."""

    process: subprocess.Popen[bytes]
    user: str
    port: int
    log: Path

    def get(self, path: str) -> str:
        """The body of a page of the operator's own HTTP port."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
            return str(answer.read().decode())

    def is_ready(self) -> bool:
        """Whether /readyz says so.

        Raises:
            RuntimeError: the process ended.
        """
        if self.process.poll() is not None:
            tail = self.log.read_text(encoding="utf-8")[-3000:]
            raise RuntimeError(f"the operator ended with {self.process.returncode}:\n{tail}")
        try:
            return bool(self.get("/readyz"))
        except (urllib.error.URLError, OSError):
            return False


def shipped_objects(helm: Path, *values: str) -> list[dict[str, Any]]:
    """The chart's objects as ``helm template`` renders them."""
    command = [
        str(helm),
        "template",
        "tierwright",
        str(ROOT / "charts" / "tierwright"),
        "--namespace",
        NAMESPACE,
    ]
    for value in values:
        command += ["--set", value]
    text = subprocess.run([*command, "--include-crds"], check=True, capture_output=True, text=True).stdout
    return [document for document in yaml.safe_load_all(text) if document]


def install_crd(admin: Kubernetes) -> None:
    """Apply the committed CRD and wait until it is served."""
    for file in sorted((ROOT / "crds").glob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            admin.apply(document)
            name = document["metadata"]["name"]

            def established(name: str = name) -> bool:
                conditions = (
                    admin.must_get("CustomResourceDefinition", name).get("status", {}).get("conditions") or []
                )
                return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

            eventually(established, f"CRD {name} is established")


def operator_kubeconfig(admin: Kubernetes, helm: Path, folder: Path) -> tuple[Path, str]:
    """Install the shipped identity and role; give a kubeconfig that holds its token, and its user name."""
    if admin.get("Namespace", NAMESPACE) is None:
        admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    account = ""
    for document in shipped_objects(helm):
        if document["kind"] in RBAC_KINDS:
            admin.apply(document)
            if document["kind"] == "ServiceAccount":
                account = document["metadata"]["name"]
    api = Api.from_kubeconfig(admin.kubeconfig)
    token = api.request(
        "POST",
        f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 86400},
        },
    )["status"]["token"]
    api.close()
    config = yaml.safe_load(admin.kubeconfig.read_text(encoding="utf-8"))
    config["users"] = [{"name": "operator", "user": {"token": token}}]
    config["contexts"][0]["context"]["user"] = "operator"
    path = folder / "operator.kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    path.chmod(0o600)
    return path, f"system:serviceaccount:{NAMESPACE}:{account}"


@contextmanager
def running_operator(kubeconfig: Path, user: str, folder: Path, **settings: str) -> Iterator[OperatorProcess]:
    """Start the operator, wait until it is ready, and end it afterwards; for ``settings`` see started_operator."""
    with started_operator(kubeconfig, user, folder, **settings) as running:
        eventually(running.is_ready, "the operator is ready")
        yield running


@contextmanager
def started_operator(kubeconfig: Path, user: str, folder: Path, **settings: str) -> Iterator[OperatorProcess]:
    """Start the operator and end it afterwards.

    ``settings`` are TIERWRIGHT_* variables in lower case without the prefix, such as ``resync_seconds="2"``.
    """
    port = free_port()
    log = folder / f"operator-{port}.log"
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "PYTHONPATH": str(ROOT / "operator"),
        "TIERWRIGHT_HTTP_PORT": str(port),
        "TIERWRIGHT_HTTP_HOST": "127.0.0.1",
        **{f"TIERWRIGHT_{name.upper()}": value for name, value in settings.items()},
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tierwright", "operator"],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
    try:
        yield OperatorProcess(process, user, port, log)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=10)
