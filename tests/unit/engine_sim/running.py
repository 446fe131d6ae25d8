"""Runs a simulated engine inside the test, on a free loopback port, with no waiting unless a test asks for it."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp.test_utils import TestServer
from openai import AsyncOpenAI
from yarl import URL

from dev.engine_sim.cli import parse_command_line
from dev.engine_sim.config import EngineConfig, build_config
from dev.engine_sim.server import Server
from dev.engine_sim.settings import Settings

MODEL = "meta/llama"
AT_ONCE = Settings(time_scale=0.0)


def config_of(*arguments: str, settings: Settings = AT_ONCE) -> EngineConfig:
    """The engine that a command line describes."""
    return build_config(parse_command_line([MODEL, *arguments]), settings)


@asynccontextmanager
async def running_engine(
    *arguments: str, settings: Settings = AT_ONCE
) -> AsyncIterator[tuple[Server, TestServer]]:
    """The simulator's server and where it listens."""
    engine = Server(config_of(*arguments, settings=settings), settings)
    server = TestServer(engine.app(), handler_cancellation=True)
    await server.start_server()
    try:
        yield engine, server
    finally:
        await server.close()


@asynccontextmanager
async def sdk_of(server: TestServer, api_key: str = "none") -> AsyncIterator[AsyncOpenAI]:
    """The official OpenAI client for a running engine; it does not retry."""
    async with AsyncOpenAI(base_url=str(server.make_url("/v1")), api_key=api_key, max_retries=0) as client:
        yield client


async def until_running(metrics: URL | str, sequences: int) -> None:
    """Scrape until this many sequences are in the running batch."""
    async with asyncio.timeout(30), aiohttp.ClientSession() as session:
        page = ""
        while not re.search(rf"^vllm:num_requests_running{{.*}} {sequences}\.0$", page, re.MULTILINE):
            async with session.get(metrics) as response:
                page = await response.text()


async def page_of(server: TestServer) -> str:
    """The metrics page as the server shows it now."""
    async with aiohttp.ClientSession() as session, session.get(server.make_url("/metrics")) as response:
        assert response.status == 200
        return await response.text()
