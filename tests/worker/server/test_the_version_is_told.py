"""`/version` tells the worker's version, as vLLM does its own: before the model is there, while it serves, and without a key."""

import re
from dataclasses import replace
from pathlib import Path

from tests.worker.server.conftest import SETTINGS, Start
from tierwright_worker import __version__

PROJECT = Path(__file__).resolve().parents[3] / "worker" / "pyproject.toml"


async def test_it_is_the_version_of_the_package_and_nothing_else(start: Start) -> None:
    found = re.search(r'^version = "(.+)"$', PROJECT.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    for warm in (False, True):
        run = await start(warm=warm, settings=replace(SETTINGS, api_keys=("secret",)))
        async with run.http.get("/version") as response:
            assert response.status == 200
            assert response.content_type == "application/json"
            assert await response.json() == {"version": __version__} == {"version": found[1]}
        async with run.http.post("/version") as response:
            assert response.status == 405


async def test_answers_name_it_so_that_a_change_of_it_can_be_seen(start: Start) -> None:
    run = await start()
    async with run.http.post("/v1/completions", json={"prompt": "x"}) as response:
        assert (await response.json())["system_fingerprint"] == f"tierwright-worker-{__version__}"
