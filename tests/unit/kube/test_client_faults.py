"""What the client makes of answers that an API server behind a load balancer gives on a bad day."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from prometheus_client import CollectorRegistry

from tierwright.kube.client import HttpKubeClient
from tierwright.kube.errors import ApiError, NetworkError, Verdict
from tierwright.kube.resources import POD, ObjectRef
from tierwright.telemetry.metrics import Metrics

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
REF = ObjectRef(POD, "n", "p")


@asynccontextmanager
async def client_of(
    handler: Handler, folder: Path, limit: float = 5.0
) -> AsyncIterator[tuple[HttpKubeClient, Metrics]]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    metrics = Metrics(CollectorRegistry(), "1")
    client = await HttpKubeClient.connect(str(kubeconfig), timeout=limit, metrics=metrics)
    try:
        yield client, metrics
    finally:
        await client.close()
        await runner.cleanup()


def answer(status: int, body: object, headers: dict[str, str] | None = None) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        if isinstance(body, str):
            return web.Response(status=status, text=body, headers=headers)
        return web.json_response(body, status=status, headers=headers)

    return handler


async def test_a_429_names_the_seconds_to_wait_whether_in_the_header_or_the_body(tmp_path: Path) -> None:
    async with client_of(answer(429, {"reason": "TooManyRequests"}, {"Retry-After": "7"}), tmp_path) as (
        client,
        _,
    ):
        with pytest.raises(ApiError) as caught:
            await client.get(REF)
        assert (caught.value.verdict, caught.value.retry_after) == (Verdict.RETRY, 7.0)
    async with client_of(answer(429, {"details": {"retryAfterSeconds": 3}}), tmp_path) as (client, _):
        with pytest.raises(ApiError) as caught:
            await client.get(REF)
        assert caught.value.retry_after == 3.0
    async with client_of(answer(503, "busy", {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}), tmp_path) as (
        client,
        _,
    ):
        with pytest.raises(ApiError) as caught:
            await client.get(REF)
        assert caught.value.retry_after is None


async def test_a_page_of_a_load_balancer_is_an_error_with_its_words(tmp_path: Path) -> None:
    async with client_of(answer(502, "<html>Bad Gateway</html>" + "x" * 5000), tmp_path) as (client, metrics):
        with pytest.raises(ApiError, match="Bad Gateway") as caught:
            await client.get(REF)
        assert caught.value.verdict is Verdict.RETRY
        assert len(str(caught.value)) < 500
        counted = metrics.registry.get_sample_value(
            "tierwright_api_requests_total", {"verb": "get", "kind": "Pod", "code": "502"}
        )
        assert counted == 1


async def test_an_answer_that_breaks_off_is_a_network_error(tmp_path: Path) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"kind": "Pod", "metad')
        assert request.transport is not None
        request.transport.close()
        return response

    async with client_of(cut, tmp_path) as (client, _):
        with pytest.raises(NetworkError):
            await client.get(REF)


async def test_an_answer_that_is_no_json_is_a_network_error(tmp_path: Path) -> None:
    async with client_of(answer(200, "<html>please log in</html>"), tmp_path) as (client, _):
        with pytest.raises(NetworkError, match="no JSON"):
            await client.get(REF)


async def test_an_answer_that_trickles_is_bounded_as_a_whole(tmp_path: Path) -> None:
    async def trickle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b" ")
            await asyncio.sleep(0.02)
        return response

    async with client_of(trickle, tmp_path, limit=0.3) as (client, metrics):
        with pytest.raises(NetworkError, match="within"):
            await client.get(REF)
        counted = metrics.registry.get_sample_value(
            "tierwright_api_requests_total", {"verb": "get", "kind": "Pod", "code": "0"}
        )
        assert counted == 1


async def test_a_list_whose_snapshot_expired_between_pages_starts_anew(tmp_path: Path) -> None:
    asked: list[str] = []

    async def expiring(request: web.Request) -> web.Response:
        token = request.query.get("continue", "")
        asked.append(token)
        if token and len(asked) < 3:
            return web.json_response({"reason": "Expired", "message": "too old"}, status=410)
        if not token:
            items = [{"metadata": {"name": "a"}}]
            return web.json_response({"items": items, "metadata": {"continue": "more"}})
        return web.json_response({"items": [{"metadata": {"name": "b"}}], "metadata": {}})

    async with client_of(expiring, tmp_path) as (client, _):
        names = [each["metadata"]["name"] for each in await client.list(POD, "n")]
    assert names == ["a", "b"]
    assert asked == ["", "more", "", "more"]


async def test_a_list_that_always_expires_ends_with_the_error(tmp_path: Path) -> None:
    async with client_of(answer(410, {"reason": "Expired"}), tmp_path) as (client, _):
        with pytest.raises(ApiError) as caught:
            await client.list(POD, "n")
        assert caught.value.status == 410


async def test_names_cannot_leave_their_place_in_the_path(tmp_path: Path) -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.raw_path)
        return web.json_response({}, status=404)

    async with client_of(handler, tmp_path) as (client, _):
        await client.get(ObjectRef(POD, "n", "../../../secrets/x?y#"))
    assert seen == ["/api/v1/namespaces/n/pods/..%2F..%2F..%2Fsecrets%2Fx%3Fy%23"]
