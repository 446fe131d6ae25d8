"""The metrics page has vLLM's families with its types, labels and buckets, and counts what happened."""

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.engine_sim import metric_facts
from tests.worker.server.conftest import SETTINGS, Running, Start, say
from tests.worker.server.tiny_engine import TinyEngine
from tierwright_worker.engine.interface import QueueLimits
from tierwright_worker.server.app import ServerSettings

FAMILIES = Path(metric_facts.__file__).parent / "vllm_metric_families.json"


async def page(run: Running) -> str:
    """The page as a scraper gets it."""
    async with run.http.get("/metrics") as response:
        assert response.status == 200
        return await response.text()


async def value(run: Running, name: str, **labels: str) -> float:
    """The sum of a sample over all series that have these labels."""
    found = [
        sample.value
        for family in text_string_to_metric_families(await page(run))
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    assert found, f"no {name}{labels}"
    return sum(found)


@pytest.mark.parametrize("drafts", [0, 8])
async def test_every_family_of_vllm_is_there_as_vllm_has_it(start: Start, drafts: int) -> None:
    expected: dict[str, Any] = json.loads(FAMILIES.read_text())
    wanted = expected["always"] | (expected["with_speculation"] if drafts else {})
    # The sample's server has a context of 2048 tokens.
    run = await start(TinyEngine(say("x"), max_length=2048), ServerSettings(("tiny",), drafts=drafts))
    async with run.http.post(
        "/v1/chat/completions", json={"messages": [{"role": "user", "content": "x"}]}
    ) as response:
        assert response.status == 200
    found = metric_facts.facts_of(await page(run))
    # What the worker says of its cache are facts of its own; all other families must agree to the letter.
    cache_info = wanted.pop("vllm:cache_config_info")
    assert found["vllm:cache_config_info"]["type"] == cache_info["type"]
    assert {name: found.get(name) for name in wanted} == wanted
    own = {name for name in found if name not in wanted and name != "vllm:cache_config_info"}
    assert all(name.startswith("tierwright_worker_") for name in own), own


async def test_what_happened_is_counted(start: Start) -> None:
    run = await start(TinyEngine(say("four"), per_step=2))
    client = run.openai()
    answer = await client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "x" * 40}]
    )
    again = await client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "x" * 40}], max_tokens=1
    )
    assert answer.usage is not None
    assert again.usage is not None
    prompts = 2 * answer.usage.prompt_tokens
    assert await value(run, "vllm:prompt_tokens_total") == prompts
    assert await value(run, "vllm:generation_tokens_total") == 6
    assert await value(run, "vllm:prompt_tokens_cached_total") == 48
    assert await value(run, "vllm:prompt_tokens_by_source_total", source="local_compute") == prompts - 48
    assert await value(run, "vllm:request_success_total", finished_reason="stop") == 1
    assert await value(run, "vllm:request_success_total", finished_reason="length") == 1
    assert await value(run, "vllm:time_to_first_token_seconds_count") == 2
    # Five tokens in steps of two: the first step is the first token's, two more follow.
    assert await value(run, "vllm:inter_token_latency_seconds_count") == 2
    assert await value(run, "vllm:request_time_per_output_token_seconds_count") == 1
    assert await value(run, "vllm:e2e_request_latency_seconds_count") == 2
    assert await value(run, "vllm:request_params_max_tokens_sum") > 1
    steps = await value(run, "vllm:iteration_tokens_total_count")
    assert await value(run, "vllm:prefix_cache_queries_total") == 7 * steps
    assert await value(run, "vllm:prompt_tokens_cached_by_source_total", source="device") == 5 * steps
    assert await value(run, "vllm:spec_decode_num_draft_tokens_total") == 3 * steps
    assert await value(run, "vllm:spec_decode_num_accepted_tokens_total") == 2 * steps
    assert await value(run, "vllm:spec_decode_num_accepted_tokens_per_pos_total", position="1") == steps
    assert await value(run, "vllm:spec_decode_num_accepted_tokens_per_pos_total", position="2") == 0
    assert await value(run, "tierwright_worker_prompt_cache_evicted_pages_total", reason="ttl") == steps
    assert await value(run, "tierwright_worker_speculation_state", state="pays") == 1
    assert await value(run, "http_requests_total", handler="/v1/chat/completions", status="2xx") == 2
    assert await value(run, "vllm:num_requests_running") == 0


async def test_refusals_are_counted_by_their_limit(start: Start) -> None:
    run = await start(TinyEngine(say("x"), slots=1, limits=QueueLimits(0)))
    async with run.http.post("/v1/completions", json={"prompt": "x", "n": 2}) as response:
        assert response.status == 503
    assert await value(run, "vllm:admission_rejections_total", reason="max_num_queued_reqs") == 1
    assert await value(run, "http_requests_total", handler="/v1/completions", status="5xx") == 1


async def test_the_load_says_how_the_engine_is(start: Start) -> None:
    run = await start(settings=SETTINGS)
    async with run.http.get("/load") as response:
        assert await response.json() == {
            "server_load": 0,
            "draining": False,
            "running": 0,
            "waiting": 0,
            "slots": 4,
            "kv_cache_usage": 0.0,
            "speculation": {
                "method": "ngram",
                "state": "pays",
                "acceptance": 0.5,
                "most_tokens": 3,
                "drafting": {"3": 0},
                "disabled_above_batch": None,
                "lossy": None,
                "bent_tokens": 0,
            },
            "exactness": {"row_exact": True, "agreement": 1.0},
            "prompt_cache": {"device": {"pages": 0, "room": 64}, "host": {"pages": 0, "room": 0}},
        }


async def test_the_page_says_what_the_load_says(start: Start) -> None:
    run = await start()
    await run.openai().chat.completions.create(model="tiny", messages=[{"role": "user", "content": "x" * 40}])
    assert await value(run, "tierwright_worker_row_exact") == 1
    assert await value(run, "tierwright_worker_step_agreement") == 1
    assert await value(run, "tierwright_worker_speculation_info", method="ngram", lossy="none") == 1
    assert await value(run, "tierwright_worker_drafting_requests", tokens="3") == 0
    assert await value(run, "tierwright_worker_prompt_cache_pages", source="device") == 3
    assert await value(run, "tierwright_worker_prompt_cache_page_room", source="device") == 64
    assert await value(run, "vllm:cache_config_info", enable_prefix_caching="True") == 1
    assert await value(run, "tierwright_worker_speculation_bent_tokens_total") == 0


async def test_verification_that_bends_is_told_everywhere(start: Start) -> None:
    run = await start(TinyEngine(say("four"), lossy="entropy<=0.5,share>=0.3"))
    raw = await run.openai().chat.completions.with_raw_response.create(
        model="tiny", messages=[{"role": "user", "content": "x"}]
    )
    assert raw.headers["x-tierwright-lossy"] == "entropy<=0.5,share>=0.3"
    answer = raw.parse()
    assert answer.usage is not None
    assert answer.usage.model_extra == {"bent_tokens": 5}
    message = await run.anthropic().messages.create(
        model="tiny", max_tokens=9, messages=[{"role": "user", "content": "x"}]
    )
    assert message.usage.model_extra is not None
    assert message.usage.model_extra["bent_tokens"] == 5
    async with run.http.get("/load") as response:
        assert (await response.json())["speculation"]["bent_tokens"] == 7
    assert await value(run, "tierwright_worker_speculation_bent_tokens_total") == 10
    assert await value(run, "tierwright_worker_speculation_info", lossy="entropy<=0.5,share>=0.3") == 1


async def test_an_exact_engine_says_nothing_of_bending(start: Start) -> None:
    run = await start()
    raw = await run.openai().chat.completions.with_raw_response.create(
        model="tiny", messages=[{"role": "user", "content": "x"}]
    )
    assert "x-tierwright-lossy" not in raw.headers
    usage = raw.parse().usage
    assert usage is not None
    assert not usage.model_extra


async def test_before_the_engine_is_warm_the_page_is_there_already(start: Start) -> None:
    run = await start(warm=False)
    assert "process_cpu_seconds_total" in await page(run)
    assert "vllm:" not in await page(run)


async def test_bounds_of_a_family_are_those_that_were_asked_for_and_the_others_stay(start: Start) -> None:
    expected: dict[str, Any] = json.loads(FAMILIES.read_text())["always"]
    chosen = {"inter_token_latency": (0.02, 0.03), "time_to_first_token": (0.4,), "request_latency": (1.0,)}
    run = await start(
        TinyEngine(say("x"), max_length=2048), ServerSettings(("tiny",), histogram_buckets=chosen)
    )
    found = metric_facts.facts_of(await page(run))
    changed = {
        "vllm:inter_token_latency_seconds": ["0.02", "0.03", "inf"],
        "vllm:request_time_per_output_token_seconds": ["0.02", "0.03", "inf"],
        "vllm:time_to_first_token_seconds": ["0.4", "inf"],
        "vllm:e2e_request_latency_seconds": ["1.0", "inf"],
    }
    assert {name: found[name]["buckets"] for name in changed} == changed
    unchanged = [
        name for name in expected if name.startswith("vllm:request_p") and "buckets" in expected[name]
    ]
    for name in unchanged:
        if name != "vllm:request_prefill_time_seconds":
            assert found[name]["buckets"] == expected[name]["buckets"], name
