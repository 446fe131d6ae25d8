"""The volume provisioner of a local cluster: a daemon that makes, grows and deletes hostPath volumes.

`claims.py` decides; this acts. Where nodes are kwok's only the objects matter, and the same code serves.
Run as `python -m dev.cluster.volumes.provisioner KUBECONFIG FOLDER`.
"""

import http.client
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from dev.cluster.api import MERGE_PATCH, Api, ApiError
from dev.cluster.control_plane import grants
from dev.cluster.control_plane.plane import ControlPlane
from dev.cluster.machine import processes
from dev.cluster.machine.processes import Process
from dev.cluster.volumes.claims import Action, Create, Delete, Grow, decide, storage_classes

NAME = "volume-provisioner"
_USER = "tierwright-dev:volume-provisioner"
_CLAIMS, _VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"
_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_SHORTEST_PAUSE_S = 0.25
_SHARE_OF_TIME = 0.1  # with thousands of claims the lists take longer, and are asked for less often
_RULES = [
    {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["list", "create", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["persistentvolumeclaims/status"], "verbs": ["patch"]},
    {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": ["list"]},
]


def start_provisioner(control_plane: ControlPlane, api: Api) -> Process:
    """Create the storage classes and start the provisioner; the running one when there is one.

    `api` speaks as the cluster's administrator. Needs no root while nodes are kwok's.
    """
    running = processes.find(control_plane.run_dir, NAME)
    if running and processes.alive(running):
        return running
    grants.grant(api, "tierwright-dev-volume-provisioner", _USER, _RULES)
    for storage_class in storage_classes():
        grants.apply(api, _CLASSES, storage_class, storage_class["metadata"]["name"])
    kubeconfig = control_plane.kubeconfig(_USER)
    repository = Path(__file__).parents[2]
    return processes.start(
        control_plane.run_dir,
        NAME,
        [
            sys.executable,
            "-m",
            "dev.cluster.volumes.provisioner",
            kubeconfig,
            volumes_dir(control_plane.run_dir),
        ],
        env={"PYTHONPATH": str(repository), "PYTHONUNBUFFERED": "1"},
    )


def volumes_dir(run_dir: Path) -> Path:
    """The folder that a cluster's volumes lie in; it goes with the cluster."""
    return run_dir / "volumes"


def step(api: Api, root: Path) -> int:
    """Look once and do what is to be done; the number of actions. A failed action is shown and tried again later."""
    lists = [api.request("GET", path).get("items", []) for path in (_CLASSES, _CLAIMS, _VOLUMES)]
    actions = decide(lists[0], lists[1], lists[2], root)
    for action in actions:
        try:
            _act(api, action)
            _say(repr(action))
        except (ApiError, OSError) as error:
            _say(f"{type(action).__name__} will be tried again: {error}")
    return len(actions)


def _act(api: Api, action: Action) -> None:
    match action:
        case Create(folder, volume):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o777)  # containers run as users of their own
            try:
                api.request("POST", _VOLUMES, volume)
            except ApiError as error:
                if error.status != 409:
                    raise
        case Grow(volume_name, namespace, claim, size):
            capacity = {"capacity": {"storage": size}}
            api.request("PATCH", f"{_VOLUMES}/{volume_name}", {"spec": capacity}, MERGE_PATCH)
            path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}/status"
            api.request("PATCH", path, {"status": {**capacity, "conditions": None}}, MERGE_PATCH)
        case Delete(folder, volume_name):
            if folder.exists():
                shutil.rmtree(folder)
            try:
                api.request("DELETE", f"{_VOLUMES}/{volume_name}")
            except ApiError as error:
                if error.status != 404:
                    raise


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def main(argv: list[str]) -> None:
    """Provision until told to stop; an API server that is away is waited for."""
    kubeconfig, root = Path(argv[0]), Path(argv[1])
    api = Api.from_kubeconfig(kubeconfig)
    while True:
        began = time.monotonic()
        try:
            step(api, root)
        except (ApiError, OSError, http.client.HTTPException) as error:
            _say(f"cannot look at the cluster: {error}")
        time.sleep(max(_SHORTEST_PAUSE_S, (time.monotonic() - began) / _SHARE_OF_TIME))


if __name__ == "__main__":
    main(sys.argv[1:])
