"""The simulator's /metrics page has vLLM's families, labels and buckets, and its numbers add up."""

import json
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.engine_sim.metric_facts import facts_of
from tests.unit.engine_sim.running import MODEL, page_of, running_engine, sdk_of

FIXTURE = json.loads((Path(__file__).parent / "vllm_metric_families.json").read_text(encoding="utf-8"))
# The fixture's page came from an engine with this model length, which sets the buckets of token counts.
SAME_LENGTH = ("--max-model-len", "2048")
EIGHT_DRAFTS = ("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 8}')


async def families_of(server: TestServer) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(await page_of(server))}


def value(families: dict[str, Metric], name: str, suffix: str = "", **labels: str) -> float:
    found = [
        sample.value
        for sample in families[f"vllm:{name}"].samples
        if sample.name == f"vllm:{name}{suffix}" and labels.items() <= sample.labels.items()
    ]
    assert len(found) == 1, f"{name}{suffix} {labels}: {found}"
    return found[0]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [((), ["always"]), (EIGHT_DRAFTS, ["always", "with_speculation"])],
    ids=["plain", "ngram"],
)
async def test_families_labels_and_buckets_are_those_of_a_real_page(
    arguments: tuple[str, ...], parts: list[str]
) -> None:
    expected = {name: facts for part in parts for name, facts in FIXTURE[part].items()}
    async with running_engine(*SAME_LENGTH, *arguments) as (_, server), sdk_of(server) as client:
        await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "hello"}], max_tokens=4
        )
        assert facts_of(await page_of(server)) == expected


async def test_buckets_of_token_counts_end_at_the_models_length() -> None:
    async with running_engine("--max-model-len", "60") as (_, server):
        facts = facts_of(await page_of(server))
    assert facts["vllm:request_prompt_tokens"]["buckets"] == [
        "1.0",
        "2.0",
        "5.0",
        "10.0",
        "20.0",
        "50.0",
        "inf",
    ]


async def test_counters_and_histograms_add_up_after_requests() -> None:
    async with running_engine(*EIGHT_DRAFTS) as (_, server), sdk_of(server) as client:
        prompt = "Repeat: " + "one two three four five six seven eight nine ten " * 8
        answers = [
            await client.completions.create(model=MODEL, prompt=prompt, max_tokens=40, temperature=0)
            for _ in range(3)
        ]
        families = await families_of(server)
    usages = [answer.usage for answer in answers if answer.usage is not None]
    prompt_tokens = sum(usage.prompt_tokens for usage in usages)
    generated = sum(usage.completion_tokens for usage in usages)
    assert generated == 120
    assert value(families, "generation_tokens", "_total") == generated
    assert value(families, "prompt_tokens", "_total") == prompt_tokens
    assert value(families, "request_prompt_tokens", "_sum") == prompt_tokens
    assert value(families, "request_generation_tokens", "_sum") == generated
    assert value(families, "request_success", "_total", finished_reason="length") == 3
    hits = value(families, "prefix_cache_hits", "_total")
    whole_blocks = (usages[0].prompt_tokens - 1) // 16 * 16
    assert hits == 2 * whole_blocks > 0
    assert value(families, "prefix_cache_queries", "_total") == prompt_tokens
    assert (
        value(families, "prompt_tokens_by_source", "_total", source="local_compute") == prompt_tokens - hits
    )
    assert value(families, "iteration_tokens_total", "_sum") == prompt_tokens - hits + generated
    accepted = value(families, "spec_decode_num_accepted_tokens", "_total")
    drafts = value(families, "spec_decode_num_drafts", "_total")
    steps = value(families, "iteration_tokens_total", "_count")
    # Each answer: one token by the prefill, then one and the accepted drafts by each decode.
    assert generated == 3 + (steps - 3) + accepted
    assert 0 < drafts <= steps
    per_position = [
        sample.value
        for sample in families["vllm:spec_decode_num_accepted_tokens_per_pos"].samples
        if sample.name.endswith("_total")
    ]
    assert sum(per_position) == accepted
    assert per_position == sorted(per_position, reverse=True)
    assert value(families, "num_requests_running") == 0
    assert value(families, "kv_cache_usage_perc") == 0
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "request_decode_time_seconds"):
        assert value(families, name, "_count") == 3


async def test_http_families_count_api_requests_but_not_probes_and_scrapes() -> None:
    async with running_engine() as (_, server), sdk_of(server) as client:
        await client.models.list()
        async with aiohttp.ClientSession() as session:
            for path in ("/health", "/metrics", "/version"):
                async with session.get(server.make_url(path)) as response:
                    assert response.status == 200
        families = await families_of(server)
    counted = {
        sample.labels["handler"]: sample.value
        for sample in families["http_requests"].samples
        if sample.name == "http_requests_total"
    }
    assert counted == {"/v1/models": 1}


async def test_bounds_of_a_family_are_those_that_were_asked_for_and_the_others_stay() -> None:
    chosen = '{"inter_token_latency": [0.02, 0.03], "time_to_first_token": [0.4]}'
    async with running_engine(*SAME_LENGTH, "--custom-histogram-buckets", chosen) as (_, server):
        facts = facts_of(await page_of(server))
    changed = {
        "vllm:inter_token_latency_seconds": ["0.02", "0.03", "inf"],
        "vllm:request_time_per_output_token_seconds": ["0.02", "0.03", "inf"],
        "vllm:time_to_first_token_seconds": ["0.4", "inf"],
    }
    for name, expected in FIXTURE["always"].items():
        if name.startswith("vllm:"):
            assert facts[name].get("buckets") == changed.get(name, expected.get("buckets")), name
