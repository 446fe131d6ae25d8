"""Certificates that are replaced while the client runs are used without a restart, and half a pair harms nothing."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from dev.cluster.control_plane.pki import Authority, KeyPair, create_authority
from tests.support.kubernetes import Kubernetes
from tierwright.kube import credential_files
from tierwright.kube.client import HttpKubeClient
from tierwright.kube.errors import ApiError
from tierwright.kube.resources import SERVICE

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster

pytestmark = pytest.mark.integration


@pytest.fixture
def authority(cluster: "Cluster", tmp_path: Path) -> Authority:
    """The cluster's authority, which writes what it issues into the test's folder."""
    assert cluster.plane is not None
    folder = tmp_path / "issued"
    folder.mkdir()
    for name in ("ca.crt", "ca.key"):
        shutil.copy(cluster.plane.authority.folder / name, folder / name)
    return Authority(folder)


@pytest.fixture
def kubeconfig(cluster: "Cluster", tmp_path: Path) -> Path:
    """A kubeconfig whose certificate and key are files of their own."""
    config = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
    files = {"client-certificate": str(tmp_path / "tls.crt"), "client-key": str(tmp_path / "tls.key")}
    config["users"] = [{"name": "me", "user": files}]
    config["contexts"][0]["context"]["user"] = "me"
    path = tmp_path / "files.kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


@pytest.fixture
async def clients(kubeconfig: Path) -> AsyncIterator[list[HttpKubeClient]]:
    """Clients that are closed afterwards."""
    opened: list[HttpKubeClient] = []
    yield opened
    for each in opened:
        await each.close()


def put(pair: KeyPair, folder: Path) -> None:
    """Puts a certificate and its key where the kubeconfig looks for them."""
    for source, name in ((pair.cert, "tls.crt"), (pair.key, "tls.key")):
        fresh = folder / f"{name}.new"
        shutil.copy(source, fresh)
        fresh.replace(folder / name)


def allow(k8s: Kubernetes, user: str) -> None:
    """Lets the user list Services of the namespace."""
    k8s.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "reader"},
            "rules": [{"apiGroups": [""], "resources": ["services"], "verbs": ["list"]}],
        }
    )
    k8s.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
    )


async def status_of(client: HttpKubeClient, namespace: str) -> int:
    """200 when Services can be listed, else the status of the refusal."""
    try:
        await client.list(SERVICE, namespace)
    except ApiError as error:
        return error.status
    return 200


async def test_a_certificate_that_the_server_takes_no_more_is_read_again_at_once(
    k8s: Kubernetes, authority: Authority, kubeconfig: Path, clients: list[HttpKubeClient], tmp_path: Path
) -> None:
    """What an expired certificate and one of a former authority have in common is the 401."""
    former = create_authority(tmp_path / "former", "former").client("second")
    put(former, tmp_path)
    allow(k8s, "second")
    client = await HttpKubeClient.connect(str(kubeconfig))
    clients.append(client)
    assert await status_of(client, k8s.namespace) == 401
    put(authority.client("second"), tmp_path)
    many = await asyncio.gather(*(status_of(client, k8s.namespace) for _ in range(40)))
    assert set(many) == {200}


async def test_a_certificate_that_is_replaced_in_time_is_used_soon(
    k8s: Kubernetes,
    authority: Authority,
    kubeconfig: Path,
    clients: list[HttpKubeClient],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(credential_files, "LOOK_EVERY", 0.0)
    put(authority.client("first"), tmp_path)
    allow(k8s, "second")
    client = await HttpKubeClient.connect(str(kubeconfig))
    clients.append(client)
    assert await status_of(client, k8s.namespace) == 403, "known, though not allowed"
    context = (await client.connection()).ssl_context
    second = authority.client("second")
    shutil.copy(second.cert, tmp_path / "tls.crt")
    assert await status_of(client, k8s.namespace) == 403, "half of the pair: the former one is used"
    put(second, tmp_path)
    assert await status_of(client, k8s.namespace) == 200
    assert (await client.connection()).ssl_context is not context, "the watches get it as well"
