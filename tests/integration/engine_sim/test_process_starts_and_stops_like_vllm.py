"""The process: its port is closed until it is ready, it ends as SIGTERM and --shutdown-timeout say, with vLLM's codes."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.unit.engine_sim.running import until_running

REPOSITORY = Path(__file__).parents[3]
ANSWER = {"prompt": "Repeat: " + "word " * 60, "max_tokens": 50, "temperature": 0}


@asynccontextmanager
async def process(*arguments: str, **settings: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A simulator process and its URL; killed at the end where it still runs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "ENGINE_SIM_START_SECONDS": "0",
        **{f"ENGINE_SIM_{name}": value for name, value in settings.items()},
    }
    child = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "dev.engine_sim",
            "model",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            *arguments,
        ),
        env={**os.environ, **environment},
        cwd=REPOSITORY,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield child, f"http://127.0.0.1:{port}"
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


async def until_line(child: asyncio.subprocess.Process, words: str) -> None:
    """Read the log until a line has these words."""
    assert child.stderr is not None
    async with asyncio.timeout(30):
        while line := (await child.stderr.readline()).decode():
            if words in line:
                return
    raise AssertionError(f"the log ended without {words!r}")


async def exit_code(child: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(30):
        return await child.wait()


async def status_of(session: aiohttp.ClientSession, url: str) -> int | None:
    """The status of a GET, None where nothing listens."""
    try:
        async with session.get(url) as response:
            return response.status
    except aiohttp.ClientConnectorError:
        return None


async def test_the_port_is_closed_until_the_engine_is_ready() -> None:
    async with process(START_SECONDS="0.3") as (child, url), aiohttp.ClientSession() as session:
        await until_line(child, "loading model")
        assert await status_of(session, f"{url}/health") is None
        await until_line(child, "ready on")
        assert await status_of(session, f"{url}/health") == 200
        child.send_signal(signal.SIGTERM)
        assert await exit_code(child) == 0


async def test_with_a_shutdown_timeout_requests_in_flight_finish_and_new_ones_are_refused() -> None:
    arguments = ("--shutdown-timeout", "30")
    async with process(*arguments, STEP_BASE_MS="30") as (child, url), aiohttp.ClientSession() as session:
        await until_line(child, "ready on")
        async with session.post(f"{url}/v1/completions", json={**ANSWER, "stream": True}) as stream:
            first = await stream.content.readline()
            child.send_signal(signal.SIGTERM)
            await until_line(child, "SIGTERM: 1 requests in flight")
            assert await status_of(session, f"{url}/health") == 503
            async with session.post(f"{url}/v1/completions", json=ANSWER) as refused:
                assert refused.status == 503
            rest = (first + await stream.content.read()).decode().strip().splitlines()
        assert rest[-1] == "data: [DONE]"
        assert await exit_code(child) == 0


async def test_a_signal_lets_the_metrics_fail_while_requests_are_served_on() -> None:
    async with process() as (child, url), aiohttp.ClientSession() as session:
        await until_line(child, "ready on")
        for words, status in (("fails", 503), ("answers", 200)):
            child.send_signal(signal.SIGUSR1)
            await until_line(child, f"/metrics {words}")
            assert await status_of(session, f"{url}/metrics") == status
            assert await status_of(session, f"{url}/health") == 200


@pytest.mark.parametrize("arguments", [(), ("--shutdown-timeout", "1")], ids=["default", "too short"])
async def test_requests_still_in_flight_at_the_deadline_are_aborted(arguments: tuple[str, ...]) -> None:
    async with process(*arguments, STEP_BASE_MS="60000") as (child, url), aiohttp.ClientSession() as session:
        await until_line(child, "ready on")
        request = asyncio.create_task(session.post(f"{url}/v1/completions", json=ANSWER))
        await until_running(f"{url}/metrics", 1)
        child.send_signal(signal.SIGTERM)
        response = await request
        assert response.status == 500
        assert "stopped before the request was finished" in (await response.json())["error"]["message"]
        response.release()
        assert await exit_code(child) == 0


@pytest.mark.parametrize(
    ("arguments", "settings", "code", "words"),
    [
        (("--no-such-argument",), {}, 2, "unrecognized arguments: --no-such-argument"),
        (("--max-num-seqs", "0"), {}, 1, "max_num_seqs: 0 must be at least 1"),
        ((), {"TIME_SCALE": "soon"}, 2, "ENGINE_SIM_TIME_SCALE"),
        ((), {"EXIT_AT_START": "3"}, 3, "ENGINE_SIM_EXIT_AT_START"),
    ],
)
async def test_a_start_that_fails_ends_with_its_code_and_its_reason(
    arguments: tuple[str, ...], settings: dict[str, str], code: int, words: str
) -> None:
    async with process(*arguments, **settings) as (child, _):
        await until_line(child, words)
        assert await exit_code(child) == code


async def test_a_hanging_start_never_opens_the_port_and_still_obeys_sigterm() -> None:
    async with process(HANG_AT_START="true") as (child, url), aiohttp.ClientSession() as session:
        await until_line(child, "loading model")
        assert await status_of(session, f"{url}/health") is None
        child.send_signal(signal.SIGTERM)
        assert await exit_code(child) == 0


async def test_an_engine_that_dies_later_turns_unhealthy_while_its_metrics_go_on() -> None:
    async with process(UNHEALTHY_AFTER_SECONDS="0.2") as (child, url), aiohttp.ClientSession() as session:
        await until_line(child, "ready on")
        async with asyncio.timeout(30):
            while await status_of(session, f"{url}/health") != 503:
                pass
        assert await status_of(session, f"{url}/metrics") == 200
