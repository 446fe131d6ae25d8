"""Every typed field becomes an argument that the worker's own parser takes, or is refused with its field."""

import argparse
from typing import Any

import pytest

from tests.support.tier_bundles import flag, tier
from tests.support.worker_flags import worker_parser
from tierwright.api.conditions import Reason
from tierwright.api.latency_buckets import TIME_PER_OUTPUT_TOKEN_BUCKETS, TIME_TO_FIRST_TOKEN_BUCKETS
from tierwright.engines.catalog import engine_plan
from tierwright.engines.engine import EnginePlan, EngineRequest
from tierwright.hardware.refusal import Refusal, RefusedError

REQUEST = EngineRequest("/models/m", None, 300, 1800, None, None)
DRAFT = {"method": "DraftModel", "tokens": 5, "draftModel": {"source": "hf://org/draft@main"}}


def plan(accelerator: str = "cpu", draft: str | None = None, **engine: Any) -> EnginePlan:
    request = EngineRequest("/models/m", draft, 300, 1800, None, None)
    wanted = {"image": "worker:0.1.0", "type": "jax", **engine}
    return engine_plan(tier(accelerator, engine=wanted).spec, request)


def refusal(accelerator: str = "cpu", **engine: Any) -> Refusal:
    with pytest.raises(RefusedError) as caught:
        plan(accelerator, **engine)
    return caught.value.refusal


def value(name: str, accelerator: str = "cpu", draft: str | None = None, **engine: Any) -> str | None:
    return flag(list(plan(accelerator, draft, **engine).args), name)


@pytest.fixture(scope="module", name="worker_parser")
def parser_of_the_worker() -> argparse.ArgumentParser:
    return worker_parser()


FULL: dict[str, Any] = {
    "dtype": "bfloat16",
    "maxModelLen": 4096,
    "batching": {"maxSequences": 4, "maxBatchedTokens": 512, "chunkedPrefill": True},
    "speculation": {**DRAFT, "disableAboveBatchSize": 2},
    "kvCache": {"blockSize": 128},
    "promptCache": {"ttl": "1h30m"},
    "jax": {"lengthBuckets": [512, 4096], "prefillBuckets": [64, 256]},
    "extraArgs": ["--prompt-cache-host-pages", "4096"],
}


def test_a_tier_with_every_field_becomes_a_command_line_of_the_worker(
    worker_parser: argparse.ArgumentParser,
) -> None:
    """A flag that the worker does not know would end each pod at once."""
    options = worker_parser.parse_args(plan(draft="/models/draft", **FULL).args)
    assert options.command == "serve"
    assert options.custom_histogram_buckets == {
        "inter_token_latency": TIME_PER_OUTPUT_TOKEN_BUCKETS,
        "time_to_first_token": TIME_TO_FIRST_TOKEN_BUCKETS,
    }
    assert str(options.model) == "/models/m"
    assert options.served_model_name == ["meta/llama-3.1-8b"]
    assert (str(options.weights_cache), str(options.compile_cache)) == ("/cache/weights", "/cache/jax")
    assert (options.dtype, options.max_model_len, options.max_num_seqs) == ("bfloat16", 4096, 4)
    assert options.max_num_batched_tokens == 512
    assert (options.speculative_tokens, options.speculation_disable_above_batch) == (5, 2)
    assert (options.speculation_method, str(options.speculative_model)) == ("draft", "/models/draft")
    assert options.platform == "cpu"
    assert (options.length_buckets, options.prefill_buckets) == ((512, 4096), (64, 256))
    assert (options.prompt_cache_page, options.prompt_cache_ttl) == (128, 5400.0)
    assert options.prompt_cache_host_pages == 4096
    assert (options.port, options.shutdown_timeout) == (8000, 300.0)


def test_the_compile_run_is_told_all_that_programs_depend_on_and_nothing_of_the_server(
    worker_parser: argparse.ArgumentParser,
) -> None:
    compiled = worker_parser.parse_args(plan(draft="/models/draft", **FULL).compile_args)
    served = worker_parser.parse_args(plan(draft="/models/draft", **FULL).args)
    assert compiled.command == "compile"
    told = {name: setting for name, setting in vars(compiled).items() if name != "command"}
    assert told == {name: getattr(served, name) for name in told}
    assert "port" not in told


@pytest.mark.parametrize("accelerator", ["cpu", "nvidia", "neuron"])
def test_the_smallest_tier_starts_on_every_accelerator(
    accelerator: str, worker_parser: argparse.ArgumentParser
) -> None:
    spec = tier(accelerator, engine={"type": "jax"}).spec
    options = worker_parser.parse_args(engine_plan(spec, REQUEST).args)
    assert options.length_buckets == ()
    assert options.dtype == ("float32" if accelerator == "cpu" else "bfloat16")
    assert options.tensor_parallel_size == (2 if accelerator == "neuron" else 1)
    assert options.platform == ("cuda" if accelerator == "nvidia" else accelerator)


def test_each_method_of_speculation_has_its_own_name_there() -> None:
    assert value("--speculation-method", speculation={"method": "NGram", "tokens": 4}) == "ngram"
    assert value("--speculative-model", speculation={"method": "NGram", "tokens": 4}) is None
    assert value("--speculative-model", draft="/models/draft", speculation=DRAFT) == "/models/draft"


def test_a_draft_model_without_weights_is_refused() -> None:
    found = refusal(speculation=DRAFT)
    assert (found.path, found.reason) == ("spec.engine.speculation.draftModel", Reason.INVALID_SPEC)


def test_what_the_user_does_not_set_is_left_to_the_worker() -> None:
    for name in (
        "--dtype",
        "--max-model-len",
        "--max-num-seqs",
        "--length-buckets",
        "--prefill-buckets",
        "--prompt-cache-page",
        "--prompt-cache-ttl",
        "--speculative-tokens",
    ):
        assert value(name) is None
    assert value("--dtype", dtype="auto") is None


def test_a_group_of_settings_that_is_empty_asks_for_nothing() -> None:
    assert plan(jax={}).args == plan().args
    assert plan(batching={}).args == plan().args


def test_without_a_prompt_cache_no_page_is_kept() -> None:
    assert value("--prompt-cache-page", promptCache={"enabled": False}) == "0"


@pytest.mark.parametrize(
    ("engine", "path"),
    [
        ({"promptCache": {"enabled": False, "ttl": "5m"}}, "spec.engine.promptCache.ttl"),
        ({"promptCache": {"enabled": False}, "kvCache": {"blockSize": 64}}, "spec.engine.kvCache.blockSize"),
        ({"quantization": "int8", "dtype": "float32"}, "spec.engine.dtype"),
    ],
)
def test_settings_of_which_one_would_do_nothing_are_refused(engine: dict[str, Any], path: str) -> None:
    found = refusal(**engine)
    assert (found.path, found.reason) == (path, Reason.INVALID_SPEC)
    assert "remove" in found.message


@pytest.mark.parametrize(
    ("engine", "path"),
    [
        ({"dtype": "float16"}, "spec.engine.dtype"),
        ({"quantization": "fp8"}, "spec.engine.quantization"),
        ({"kvCache": {"dtype": "fp8"}}, "spec.engine.kvCache.dtype"),
        ({"kvCache": {"dtype": "float16"}}, "spec.engine.kvCache.dtype"),
        ({"kvCache": {"hostOffload": "4Gi"}}, "spec.engine.kvCache.hostOffload"),
        ({"kvCache": {"memoryFraction": "0.5"}}, "spec.engine.kvCache.memoryFraction"),
        ({"batching": {"chunkedPrefill": False}}, "spec.engine.batching.chunkedPrefill"),
        ({"promptCache": {"scope": "Tenant"}}, "spec.engine.promptCache.scope"),
        ({"tensorParallel": 2}, "spec.engine.tensorParallel"),
        ({"pipelineParallel": 2}, "spec.engine.pipelineParallel"),
        ({"dataParallel": 2}, "spec.engine.dataParallel"),
        ({"speculation": {"method": "MTP", "tokens": 2}}, "spec.engine.speculation.method"),
        ({"speculation": {**DRAFT, "method": "Eagle3"}}, "spec.engine.speculation.method"),
    ],
)
def test_what_the_worker_cannot_do_is_refused_with_its_field(engine: dict[str, Any], path: str) -> None:
    found = refusal(**engine)
    assert (found.path, found.reason) == (path, Reason.UNSUPPORTED)
    assert any(mark in found.message for mark in ("; use ", "; remove "))


def test_number_formats_of_weights_and_cache_are_told_by_the_workers_names(
    worker_parser: argparse.ArgumentParser,
) -> None:
    options = worker_parser.parse_args(plan(quantization="int8", kvCache={"dtype": "int8"}).args)
    assert (options.dtype, options.kv_cache_dtype) == ("int8", "int8")
    assert value("--dtype", "nvidia", quantization="int8") == "int8"
    assert value("--kv-cache-dtype", "nvidia", kvCache={"dtype": "bfloat16"}) == "bfloat16"
    assert value("--kv-cache-dtype", kvCache={"dtype": "auto"}) is None


@pytest.mark.parametrize("arguments", [["--kernels", "off"], ["--kernels=off"]])
def test_an_argument_of_the_user_that_programs_depend_on_reaches_the_compile_run(
    arguments: list[str],
) -> None:
    own = ["--api-key", "k", *arguments, "--max-num-queued-reqs", "9"]
    wanted = plan(extraArgs=own)
    assert wanted.args[-len(own) :] == tuple(own)
    assert wanted.compile_args[-len(arguments) :] == tuple(arguments)
    assert "--api-key" not in wanted.compile_args


def test_the_share_of_a_gpus_memory_is_told_where_jax_reads_it() -> None:
    env = plan("nvidia", kvCache={"memoryFraction": "0.90"}).env
    assert env["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.90"
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in plan("nvidia").env
