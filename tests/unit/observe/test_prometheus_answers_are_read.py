"""What a Prometheus server answers becomes pods' pages; whatever it answers instead is told of every pod, and harms nobody."""

import asyncio
import contextlib
import itertools
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from dev.cluster.machine.ports import free_port
from tests.support.certificates import self_signed
from tierwright.observe.prometheus_source import (
    SAMPLED_AT,
    AnswerError,
    PrometheusSettings,
    PrometheusSource,
    instance_of,
    query_for,
    samples_of,
    server_authority,
)
from tierwright.observe.readings import Scraped, ScrapeFault, Target

POD = Target("a", "10.0.0.1", 8000)
OTHER = Target("b", "10.0.0.2", 8000)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def series(
    name: str, value: str, *, instance: str = "10.0.0.1:8000", now: float = 100.0, **labels: str
) -> Any:
    return {"metric": {"__name__": name, "instance": instance, **labels}, "value": [now, value]}


def answer(*found: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "vector", "result": list(found)}}


async def read(handler: Handler, *targets: Target, **settings: Any) -> dict[str, Scraped]:
    """One reading of a server that answers so."""
    app = web.Application()
    app.router.add_post("/prometheus/api/v1/query", handler)
    async with TestServer(app) as server:
        url = str(server.make_url("/prometheus/"))
        async with PrometheusSource(PrometheusSettings(url, **settings), clock=lambda: 50.0) as source:
            return dict(await source.read(targets or (POD,)))


def always(document: Any) -> Handler:
    async def handle(_: web.Request) -> web.Response:
        return web.json_response(document)

    return handle


async def test_a_page_is_made_of_the_series_of_one_pod_and_dated_by_its_sample() -> None:
    found = await read(
        always(
            answer(
                series("vllm:num_requests_running", "3", engine="0"),
                series("vllm:num_requests_running", "9", engine="0", instance="10.0.0.2:8000"),
                series(SAMPLED_AT, "88"),
                series(SAMPLED_AT, "99", instance="10.0.0.2:8000"),
            )
        ),
        POD,
        OTHER,
    )
    assert (found["a"].at, found["b"].at) == (38.0, 49.0)
    assert found["a"].page is not None
    assert found["b"].page is not None
    assert (found["a"].page.running, found["b"].page.running) == (3, 9)


async def test_of_two_jobs_that_scrape_a_pod_the_newer_counts_once() -> None:
    found = await read(
        always(
            answer(
                series("vllm:num_requests_running", "5", job="new"),
                series("vllm:num_requests_running", "4", job="old"),
                series(SAMPLED_AT, "99", job="new"),
                series(SAMPLED_AT, "90", job="old"),
            )
        )
    )
    assert found["a"].page is not None
    assert (found["a"].page.running, found["a"].at) == (5, 49.0)


async def test_labels_with_quotes_and_values_that_are_no_numbers_are_read_as_on_a_page() -> None:
    found = await read(
        always(
            answer(
                series("vllm:num_requests_running", "2", model_name='a"b\\c\nd'),
                series("vllm:num_requests_waiting", "NaN"),
                series(SAMPLED_AT, "99"),
            )
        )
    )
    page = found["a"].page
    assert page is not None
    assert (page.running, page.waiting) == (2, None)


async def test_pods_are_asked_for_in_batches_and_one_without_an_address_not_at_all() -> None:
    asked = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(str((await request.post())["query"]))
        return web.json_response(answer())

    pods = [Target(f"pod-{place}", f"10.0.0.{place}", 8000) for place in range(5)]
    found = await read(handle, *pods, Target("new", "", 8000), pods_at_once=2)
    assert len(asked) == 3
    assert {uid: each.fault for uid, each in found.items()} == {
        **{pod.uid: ScrapeFault.NOT_SCRAPED for pod in pods},
        "new": ScrapeFault.NO_ADDRESS,
    }
    assert "10.0.0.4:8000" in found["pod-4"].words


async def test_the_token_of_the_file_is_sent_and_a_file_that_is_gone_is_not(tmp_path: Path) -> None:
    sent = []

    async def handle(request: web.Request) -> web.Response:
        sent.append(request.headers.get("Authorization"))
        return web.json_response(answer())

    token = tmp_path / "token"
    token.write_text(" secret\n")
    for file in (token, tmp_path / "none", tmp_path, ""):
        await read(handle, token_file=str(file))
    token.write_text("\n")
    await read(handle, token_file=str(token))
    assert sent == ["Bearer secret", None, None, None, None]


@pytest.mark.parametrize(
    ("name", "fault"), [("localhost", ScrapeFault.NOT_SCRAPED), ("elsewhere", ScrapeFault.NOT_TRUSTED)]
)
async def test_a_server_is_trusted_by_its_authority_and_under_its_own_name(
    tmp_path: Path, name: str, fault: ScrapeFault
) -> None:
    file = self_signed(tmp_path, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    app = web.Application()
    app.router.add_post("/api/v1/query", always(answer()))
    server = TestServer(app, host="localhost", scheme="https")
    await server.start_server(ssl=context)
    settings = PrometheusSettings(str(server.make_url("/")))
    try:
        async with PrometheusSource(settings, server_authority(str(file))) as source:
            assert (await source.read([POD]))["a"].fault is fault
        async with PrometheusSource(settings) as source:
            found = (await source.read([POD]))["a"]
    finally:
        await server.close()
    assert found.fault is ScrapeFault.NOT_TRUSTED, "without the authority nobody is trusted"
    assert "certificate" in found.words


async def test_a_server_that_is_not_there_is_told() -> None:
    async with PrometheusSource(PrometheusSettings(f"http://127.0.0.1:{free_port()}")) as source:
        found = (await source.read([POD]))["a"]
    assert found.fault is ScrapeFault.UNREACHABLE
    assert found.words.startswith("the Prometheus server: ")


async def refused(_: web.Request) -> web.Response:
    return web.Response(status=401, text="who are you?")


async def moved(_: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"})


async def hangs(_: web.Request) -> web.Response:
    await asyncio.sleep(30)
    return web.Response()


async def long(_: web.Request) -> web.Response:
    return web.Response(text="x" * 5000)


async def no_json(_: web.Request) -> web.Response:
    return web.Response(text="<html>")


@pytest.mark.parametrize(
    ("handler", "fault", "words"),
    [
        (refused, ScrapeFault.REFUSED, "status 401: who are you?"),
        (moved, ScrapeFault.REFUSED, "status 302"),
        (hangs, ScrapeFault.TIMED_OUT, "no whole answer within 0.3 s"),
        (long, ScrapeFault.TOO_LARGE, "more than 4,000 bytes"),
        (no_json, ScrapeFault.REFUSED, "no JSON"),
        (always([]), ScrapeFault.REFUSED, "of another kind"),
        (
            always({"data": {"result": [{"metric": {}, "value": [1, "1"]}]}}),
            ScrapeFault.REFUSED,
            "'instance'",
        ),
        (always(answer(series(SAMPLED_AT, "soon"))), ScrapeFault.REFUSED, "of another kind"),
    ],
)
async def test_whatever_the_server_does_instead_is_told_of_every_pod(
    handler: Handler, fault: ScrapeFault, words: str
) -> None:
    found = await read(handler, POD, OTHER, timeout=0.3, most_bytes=4000)
    for each in found.values():
        assert (each.page, each.fault) == (None, fault)
        assert each.words.startswith("the Prometheus server: ")
        assert words in each.words


async def test_a_page_that_is_too_long_is_refused_for_its_pod_alone() -> None:
    many = [series("vllm:num_requests_running", "1", engine=str(place)) for place in range(20_001)]
    others = [series("vllm:num_requests_running", "1", instance="10.0.0.2:8000")]
    dates = [series(SAMPLED_AT, "99"), series(SAMPLED_AT, "99", instance="10.0.0.2:8000")]
    found = await read(always(answer(*many, *others, *dates)), POD, OTHER)
    assert found["a"].fault is ScrapeFault.TOO_LARGE
    assert found["b"].page is not None


async def test_the_time_between_two_samples_is_the_servers_whatever_the_answers_took() -> None:
    dates = itertools.chain([("100.0", 90.0), ("110.0", 117.5), ("110.0", 118.0), ("40.0", 119.0)])
    clock = itertools.count(0.0, 7.7)

    async def handle(_: web.Request) -> web.Response:
        taken, now = next(dates)
        return web.json_response(answer(series(SAMPLED_AT, taken, now=now)))

    app = web.Application()
    app.router.add_post("/api/v1/query", handle)
    async with TestServer(app) as server:
        settings = PrometheusSettings(str(server.make_url("/")), timeout=30.0)
        async with PrometheusSource(settings, clock=lambda: next(clock)) as source:
            found = [(await source.read([POD]))["a"] for _ in range(4)]
    first, second, same, back = [each.at for each in found]
    assert [each.age for each in found] == [0.0, 7.5, 8.0, 79.0], "how old a sample is, by the server's clock"
    assert second - first == pytest.approx(10.0)
    assert same == second
    assert back < second, "a server whose clock was set back begins anew"


async def test_an_answer_that_waited_while_the_process_stood_still_is_of_another_time() -> None:
    clock = itertools.count(0.0, 7.7)

    async def handle(_: web.Request) -> web.Response:
        return web.json_response(answer(series(SAMPLED_AT, "99")))

    app = web.Application()
    app.router.add_post("/api/v1/query", handle)
    async with TestServer(app) as server:
        settings = PrometheusSettings(str(server.make_url("/")), timeout=7.0)
        async with PrometheusSource(settings, clock=lambda: next(clock)) as source:
            found = (await source.read([POD]))["a"]
    assert (found.page, found.fault) == (None, ScrapeFault.TIMED_OUT)


def test_addresses_are_matched_whole_and_as_they_are() -> None:
    assert instance_of(Target("v6", "fd00::1", 8000)) == "[fd00::1]:8000"
    query = query_for(["10.0.0.1:8000", "[fd00::1]:8000"], 'cluster="east"')
    assert '"10\\\\.0\\\\.0\\\\.1:8000|\\\\[fd00::1\\\\]:8000", cluster="east"' in query
    assert query_for(["10.0.0.1:8000"]).count("}") == 2


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["data", "result", "metric", "value", "__name__", "instance"]), inner
            )
        ),
    )
)
def test_no_document_breaks_the_reader(document: Any) -> None:
    with contextlib.suppress(AnswerError):
        samples_of(json.loads(json.dumps(document)))
