"""Starting, clients that vanish, draining and the death of the engine: nothing hangs, nothing looks like success."""

import asyncio
import os
import signal
import socket
from collections.abc import Sequence

import aiohttp
import anthropic
import openai
import pytest

from tests.worker.server.conftest import Running, Start, say
from tests.worker.server.tiny_engine import Listener as ProgressListener
from tests.worker.server.tiny_engine import TinyEngine
from tests.worker.server.waiting import until
from tierwright_worker.engine.interface import Admission
from tierwright_worker.engine.service import ENGINE_DEAD, EngineRequest
from tierwright_worker.errors import DeviceError, SettingsError
from tierwright_worker.server.lifecycle import Listener, ListenSettings, serve

LONG = {"prompt": "x", "max_tokens": 400, "stream": True}


def slow() -> TinyEngine:
    """An engine that takes eight seconds for an answer."""
    return TinyEngine(say("x" * 400), step_seconds=0.02, slots=1)


async def status(run: Running, path: str = "/health") -> int:
    """The status of a path."""
    async with run.http.get(path) as response:
        return response.status


async def test_before_the_engine_is_warm_nothing_is_ready(start: Start) -> None:
    run = await start(warm=False)
    assert await status(run) == 503
    assert await status(run, "/v1/models") == 200
    async with run.http.post("/v1/completions", json={"prompt": "x"}) as response:
        assert response.status == 503
        assert int(response.headers["Retry-After"]) > 0
        assert "still being loaded" in (await response.json())["error"]["message"]
    run.server.attach(run.engine)
    assert await status(run) == 200
    assert await status(run, "/ping") == 200


async def test_a_client_that_leaves_a_stream_ends_it_in_the_engine(start: Start) -> None:
    run = await start(slow())
    response = await run.http.post("/v1/completions", json=LONG)
    await response.content.readany()
    response.close()
    await until(lambda: run.engine.state().running == 0, 2)
    assert run.engine.cancelled
    await until(lambda: run.server.in_flight == 0)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_while_it_waits_ends_it_in_the_queue(start: Start, stream: bool) -> None:
    run = await start(slow())
    busy = await run.http.post("/v1/completions", json=LONG)
    await busy.content.readany()
    waiting = asyncio.create_task(run.http.post("/v1/completions", json=LONG | {"stream": stream}))
    await until(lambda: run.engine.state().waiting == 1)
    waiting.cancel()
    await until(lambda: run.engine.state().waiting == 0, 2)
    assert run.engine.state().running == 1
    busy.close()


async def test_a_client_that_leaves_a_whole_answer_ends_it_in_the_engine(start: Start) -> None:
    run = await start(slow())
    task = asyncio.create_task(run.http.post("/v1/completions", json=LONG | {"stream": False}))
    await until(lambda: run.engine.state().running == 1)
    task.cancel()
    await until(lambda: run.engine.state().running == 0, 2)
    async with run.http.get("/metrics") as response:
        assert 'finished_reason="abort",model_name="tiny"} 1.0' in await response.text()


async def test_a_client_that_sends_half_a_body_disturbs_nobody(start: Start) -> None:
    run = await start()
    _, writer = await asyncio.open_connection("127.0.0.1", int(run.url.rsplit(":", 1)[1]))
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    await writer.drain()
    writer.close()
    assert (await run.openai().completions.create(model="tiny", prompt="x")).choices


async def test_draining_lets_requests_finish_and_takes_no_new_ones(start: Start) -> None:
    run = await start(TinyEngine(say("x" * 20), step_seconds=0.02))
    stream = await run.openai().completions.create(model="tiny", prompt="x", max_tokens=50, stream=True)
    chunks = aiter(stream)
    text = (await anext(chunks)).choices[0].text
    running = asyncio.create_task(run.listener.run())
    run.listener.stop()
    assert await status(run) == 503
    with pytest.raises(openai.InternalServerError, match="shutting down"):
        await run.openai().completions.create(model="tiny", prompt="x")
    text += "".join([chunk.choices[0].text async for chunk in chunks])
    assert text == "x" * 20
    await asyncio.wait_for(running, 10)


async def test_an_idle_server_stops_at_once(start: Start) -> None:
    run = await start(drain_seconds=60)
    running = asyncio.create_task(run.listener.run())
    await asyncio.sleep(0)
    run.listener.stop()
    await asyncio.wait_for(running, 5)


async def test_what_outlasts_the_draining_is_told_so(start: Start) -> None:
    run = await start(slow(), drain_seconds=0.1)
    stream = await run.openai().completions.create(model="tiny", prompt="x", max_tokens=400, stream=True)
    whole = asyncio.create_task(run.openai().completions.create(model="tiny", prompt="x", max_tokens=400))
    message = run.anthropic().messages.stream(
        model="tiny", max_tokens=400, messages=[{"role": "user", "content": "x"}]
    )
    chunks = aiter(stream)
    await anext(chunks)
    await until(lambda: run.engine.state().waiting == 1)
    running = asyncio.create_task(run.listener.run())
    run.listener.stop()
    with pytest.raises(openai.APIError, match="time for draining is over"):
        async for _ in chunks:
            pass
    with pytest.raises(openai.InternalServerError, match="time for draining is over"):
        await whole
    with pytest.raises(anthropic.APIError):
        async with message as refused:
            await refused.get_final_message()
    await asyncio.wait_for(running, 10)
    assert run.engine.state().running == 0


async def test_a_second_signal_ends_the_draining(start: Start) -> None:
    run = await start(slow(), drain_seconds=60)
    stream = await run.openai().completions.create(model="tiny", prompt="x", max_tokens=400, stream=True)
    await anext(aiter(stream))
    running = asyncio.create_task(run.listener.run())
    run.listener.stop()
    run.listener.stop()
    await asyncio.wait_for(running, 5)


@pytest.mark.parametrize("drains", [False, True])
async def test_the_death_of_the_engine_ends_everything_with_its_reason(start: Start, drains: bool) -> None:
    run = await start(slow())
    running = asyncio.create_task(run.listener.run())
    stream = await run.openai().completions.create(model="tiny", prompt="x", max_tokens=400, stream=True)
    chunks = aiter(stream)
    await anext(chunks)
    if drains:
        run.listener.stop()
    run.engine.dies_with = "the device is gone"
    with pytest.raises(openai.APIError, match="the device is gone"):
        async for _ in chunks:
            pass
    with pytest.raises(DeviceError, match="the engine died: the device is gone"):
        await asyncio.wait_for(running, 5)


async def test_a_dead_engine_is_neither_healthy_nor_asked(start: Start) -> None:
    run = await start()
    run.engine.dies_with = "the device is gone"
    await until(lambda: run.server.failure is not None)
    assert await status(run) == 503
    with pytest.raises(openai.InternalServerError, match="the engine is dead: the device is gone"):
        await run.openai().completions.create(model="tiny", prompt="x")


class DiesOnTheWay(TinyEngine):
    """Alive when a request is looked at, dead when it is handed over."""

    def submit(self, requests: Sequence[EngineRequest], listener: ProgressListener) -> Admission:  # noqa: ARG002
        self._failure = "the device is gone"
        return Admission(False, ENGINE_DEAD, 1)


async def test_an_engine_that_dies_before_it_takes_a_request_says_so(start: Start) -> None:
    run = await start(DiesOnTheWay(say("x")))
    with pytest.raises(openai.InternalServerError, match="the engine is dead: the device is gone"):
        await run.openai().completions.create(model="tiny", prompt="x")


async def test_an_anthropic_stream_that_breaks_off_is_an_error(start: Start) -> None:
    run = await start(slow())

    async def read() -> None:
        async with run.anthropic().messages.stream(
            model="tiny", max_tokens=400, messages=[{"role": "user", "content": "x"}]
        ) as stream:
            async for event in stream:
                if event.type == "text":
                    run.engine.dies_with = "the device is gone"

    with pytest.raises(anthropic.APIStatusError, match="the device is gone"):
        await read()


async def test_an_address_that_is_taken_is_one_clear_error(start: Start) -> None:
    run = await start()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"cannot listen on 127.0.0.1:{port}"):
            await Listener(run.server, ListenSettings("127.0.0.1", port)).start()


async def test_sigterm_drains(start: Start) -> None:
    run = await start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serving = asyncio.create_task(serve(run.server, ListenSettings("127.0.0.1", port)))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
        for _ in range(200):
            try:
                async with client.get("/health") as response:
                    assert response.status == 200
                    break
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(serving, 10)
    assert run.server.draining


async def test_a_thousand_requests_at_once_are_served_or_refused(start: Start) -> None:
    run = await start(TinyEngine(say("x"), slots=4))

    async def one() -> int:
        async with run.http.post("/v1/completions", json={"prompt": "x"}) as response:
            await response.read()
            return response.status

    statuses = await asyncio.gather(*[one() for _ in range(1000)])
    assert set(statuses) <= {200, 503}
    assert 200 in statuses
    assert await status(run) == 200
    assert (await run.openai().completions.create(model="tiny", prompt="x")).choices[0].text == "x"
