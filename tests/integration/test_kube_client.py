"""The client against a real API server: each verb, each kind of refusal, credentials that change, and the environment."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.support.kubernetes import Kubernetes
from tests.support.tcp_proxy import proxied
from tierwright.kube.client import HttpKubeClient
from tierwright.kube.credentials import CredentialsError
from tierwright.kube.errors import ApiError, NetworkError, Verdict
from tierwright.kube.resources import CONFIG_MAP, DEPLOYMENT, SERVICE, Object, ObjectRef, ResourceKind

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster

pytestmark = pytest.mark.integration


@pytest.fixture
async def client(cluster: "Cluster") -> AsyncIterator[HttpKubeClient]:
    connected = await HttpKubeClient.connect(str(cluster.kubeconfig))
    try:
        yield connected
    finally:
        await connected.close()


def config_map(namespace: str, name: str = "c", **data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def deployment(namespace: str, selector: str) -> Object:
    labels = {"app": selector}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }


async def test_an_object_that_is_not_there_is_none_and_its_deletion_is_no_error(
    client: HttpKubeClient, k8s: Kubernetes
) -> None:
    ref = ObjectRef(CONFIG_MAP, k8s.namespace, "absent")
    assert await client.get(ref) is None
    assert await client.delete(ref) is False


async def test_apply_creates_changes_and_removes_what_is_no_longer_sent(
    client: HttpKubeClient, k8s: Kubernetes
) -> None:
    await client.apply(config_map(k8s.namespace, a="1", b="2"), manager="one")
    await client.apply(config_map(k8s.namespace, b="3"), manager="one")
    found = await client.get(ObjectRef(CONFIG_MAP, k8s.namespace, "c"))
    assert found is not None
    assert found["data"] == {"b": "3"}
    assert await client.delete(ObjectRef(CONFIG_MAP, k8s.namespace, "c")) is True


async def test_a_field_of_another_manager_is_a_conflict_that_names_it_unless_forced(
    client: HttpKubeClient, k8s: Kubernetes
) -> None:
    await client.apply(config_map(k8s.namespace, a="1"), manager="one")
    with pytest.raises(ApiError) as caught:
        await client.apply(config_map(k8s.namespace, a="2"), manager="two", force=False)
    assert caught.value.status == 409
    assert caught.value.verdict is Verdict.RETRY
    assert [(each.reason, each.field) for each in caught.value.causes] == [
        ("FieldManagerConflict", ".data.a")
    ]
    assert '"one"' in caught.value.causes[0].message
    assert (await client.apply(config_map(k8s.namespace, a="2"), manager="two"))["data"] == {"a": "2"}


async def test_an_apply_with_a_uid_never_creates_and_never_touches_a_successor(
    client: HttpKubeClient, k8s: Kubernetes
) -> None:
    first = await client.apply(config_map(k8s.namespace, a="1"), manager="one")
    ref = ObjectRef(CONFIG_MAP, k8s.namespace, "c")
    await client.delete(ref)
    late = config_map(k8s.namespace, a="2")
    late["metadata"]["uid"] = first["metadata"]["uid"]
    with pytest.raises(ApiError) as caught:
        await client.apply(late, manager="one")
    assert caught.value.status == 409
    assert await client.get(ref) is None
    await client.apply(config_map(k8s.namespace, a="successor"), manager="other")
    with pytest.raises(ApiError) as caught:
        await client.apply(late, manager="one")
    assert caught.value.status == 409
    with pytest.raises(ApiError) as caught:
        await client.delete(ref, uid=first["metadata"]["uid"])
    assert caught.value.status == 409
    found = await client.get(ref)
    assert found is not None
    assert found["data"] == {"a": "successor"}


async def test_a_dry_run_tells_the_result_and_stores_nothing(client: HttpKubeClient, k8s: Kubernetes) -> None:
    result = await client.apply(config_map(k8s.namespace, a="1"), manager="one", dry_run=True)
    assert result["data"] == {"a": "1"}
    assert await client.get(ObjectRef(CONFIG_MAP, k8s.namespace, "c")) is None


async def test_an_immutable_field_is_a_422_that_names_it(client: HttpKubeClient, k8s: Kubernetes) -> None:
    await client.apply(deployment(k8s.namespace, "a"), manager="one")
    with pytest.raises(ApiError) as caught:
        await client.apply(deployment(k8s.namespace, "b"), manager="one")
    assert caught.value.status == 422
    assert caught.value.verdict is Verdict.ONCE_PER_RESYNC
    assert "spec.selector" in [each.field for each in caught.value.causes]


async def test_a_field_that_does_not_exist_is_the_manifests_fault_and_not_tried_again(
    client: HttpKubeClient, k8s: Kubernetes
) -> None:
    wrong = deployment(k8s.namespace, "a")
    wrong["spec"]["template"]["spec"]["contaners"] = []
    with pytest.raises(ApiError) as caught:
        await client.apply(wrong, manager="one")
    assert caught.value.verdict is Verdict.TERMINAL
    assert "contaners" in caught.value.message


@pytest.mark.parametrize(
    ("field", "value"), [("terminationGracePeriodSeconds", 30.5), ("overhead", {"memory": "a lot"})]
)
async def test_a_value_that_its_field_cannot_hold_is_the_manifests_fault_and_not_tried_again(
    client: HttpKubeClient, k8s: Kubernetes, field: str, value: object
) -> None:
    manifest = deployment(k8s.namespace, "a")
    manifest["spec"]["template"]["spec"][field] = value
    with pytest.raises(ApiError, match="convert") as caught:
        await client.apply(manifest, manager="test")
    assert (caught.value.status, caught.value.verdict) == (400, Verdict.TERMINAL)


async def test_a_certificate_that_is_none_is_told_and_no_traceback(k8s: Kubernetes, tmp_path: Path) -> None:
    config = yaml.safe_load(k8s.kubeconfig.read_text(encoding="utf-8"))
    config["clusters"][0]["cluster"] |= {"certificate-authority-data": "bm9uZQ=="}
    path = tmp_path / "bad.kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    with pytest.raises(CredentialsError, match="a certificate or key of the kubeconfig cannot be used"):
        await HttpKubeClient.connect(str(path))


async def test_a_patch_changes_what_is_there_and_is_a_404_otherwise(
    client: HttpKubeClient, k8s: Kubernetes
) -> None:
    ref = ObjectRef(CONFIG_MAP, k8s.namespace, "c")
    with pytest.raises(ApiError) as caught:
        await client.patch(ref, {"data": {"a": "1"}})
    assert caught.value.status == 404
    await client.apply(config_map(k8s.namespace, a="1"), manager="one")
    assert (await client.patch(ref, {"data": {"b": "2"}}))["data"] == {"a": "1", "b": "2"}
    steps: list[Object] = [{"op": "remove", "path": "/data/a"}]
    assert (await client.patch(ref, steps, content_type="application/json-patch+json"))["data"] == {"b": "2"}


async def test_a_list_reads_all_pages_and_filters_at_the_server(
    client: HttpKubeClient, k8s: Kubernetes
) -> None:
    for number in range(7):
        labelled = config_map(k8s.namespace, f"c{number}")
        labelled["metadata"]["labels"] = {"half": str(number % 2)}
        await client.apply(labelled, manager="one")
    found = await client.list(CONFIG_MAP, k8s.namespace, label_selector="half=0", limit=2)
    assert [each["metadata"]["name"] for each in found] == ["c0", "c2", "c4", "c6"]
    assert {(each["apiVersion"], each["kind"]) for each in found} == {("v1", "ConfigMap")}
    everywhere = await client.list(CONFIG_MAP, field_selector=f"metadata.namespace={k8s.namespace}", limit=3)
    assert {f"c{number}" for number in range(7)} <= {each["metadata"]["name"] for each in everywhere}


async def test_an_absent_kind_is_tried_once_per_resync(client: HttpKubeClient, k8s: Kubernetes) -> None:
    nothing = ResourceKind("example.org", "v1", "Nothing", "nothings")
    with pytest.raises(ApiError) as caught:
        await client.list(nothing, k8s.namespace)
    assert (caught.value.status, caught.value.verdict) == (404, Verdict.ONCE_PER_RESYNC)


def account_kubeconfig(k8s: Kubernetes, folder: Path, token: str) -> Path:
    config = yaml.safe_load(k8s.kubeconfig.read_text(encoding="utf-8"))
    config["users"] = [{"name": "account", "user": {"token": token}}]
    config["contexts"][0]["context"]["user"] = "account"
    path = folder / "account.kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def new_token(k8s: Kubernetes) -> str:
    from dev.cluster.api import Api

    k8s.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}})
    api = Api.from_kubeconfig(k8s.kubeconfig)
    answer = api.request(
        "POST",
        f"{k8s.path('ServiceAccount', 'reader')}/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    )
    api.close()
    token: str = answer["status"]["token"]
    return token


async def test_a_role_that_lacks_a_verb_is_a_403(k8s: Kubernetes, tmp_path: Path) -> None:
    client = await HttpKubeClient.connect(str(account_kubeconfig(k8s, tmp_path, new_token(k8s))))
    try:
        with pytest.raises(ApiError) as caught:
            await client.list(SERVICE, k8s.namespace)
        assert (caught.value.status, caught.value.verdict) == (403, Verdict.ONCE_PER_RESYNC)
    finally:
        await client.close()


async def test_a_replaced_token_is_read_again_after_a_401(k8s: Kubernetes, tmp_path: Path) -> None:
    path = account_kubeconfig(k8s, tmp_path, "stale")
    client = await HttpKubeClient.connect(str(path))
    try:
        with pytest.raises(ApiError) as caught:
            await client.list(SERVICE, k8s.namespace)
        assert caught.value.status == 401
        account_kubeconfig(k8s, tmp_path, new_token(k8s))
        with pytest.raises(ApiError) as caught:
            await client.list(SERVICE, k8s.namespace)
        assert caught.value.status == 403, "known now, though not allowed"
        assert (await client.connection()).headers["Authorization"].startswith("Bearer ")
    finally:
        await client.close()


async def test_missing_credentials_say_where_they_were_looked_for(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"absent\.kubeconfig"):
        await HttpKubeClient.connect(str(tmp_path / "absent.kubeconfig"))
    broken = tmp_path / "broken.kubeconfig"
    broken.write_text("clusters: [1, 2")
    with pytest.raises(CredentialsError, match=r"broken\.kubeconfig"):
        await HttpKubeClient.connect(str(broken))


async def test_no_variable_of_the_environment_leads_requests_elsewhere(
    cluster: "Cluster", k8s: Kubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.pem"
    other.write_text("")
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, str(other))
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    client = await HttpKubeClient.connect(str(cluster.kubeconfig))
    try:
        assert await client.list(SERVICE, k8s.namespace) == []
    finally:
        await client.close()


async def test_a_server_that_says_nothing_costs_one_time_limit_and_no_more(
    cluster: "Cluster", k8s: Kubernetes, tmp_path: Path
) -> None:
    with proxied(cluster.kubeconfig, tmp_path) as (proxy, kubeconfig):
        client = await HttpKubeClient.connect(str(kubeconfig), timeout=1.0)
        ref = ObjectRef(CONFIG_MAP, k8s.namespace, "absent")
        try:
            assert await client.get(ref) is None
            proxy.stall()
            started = time.monotonic()
            with pytest.raises(NetworkError, match="within 1 s"):
                await client.get(ref)
            assert time.monotonic() - started < 3
            proxy.refuse()
            with pytest.raises(NetworkError):
                await client.get(ref)
            proxy.heal()
            assert await client.get(ref) is None
        finally:
            await client.close()


async def test_many_requests_at_once_share_a_bounded_number_of_connections(
    cluster: "Cluster", k8s: Kubernetes, tmp_path: Path
) -> None:
    with proxied(cluster.kubeconfig, tmp_path) as (proxy, kubeconfig):
        client = await HttpKubeClient.connect(str(kubeconfig))
        try:
            ref = ObjectRef(DEPLOYMENT, k8s.namespace, "absent")
            await asyncio.gather(*(client.get(ref) for _ in range(200)))
            assert proxy.accepted <= 32
        finally:
            await client.close()
