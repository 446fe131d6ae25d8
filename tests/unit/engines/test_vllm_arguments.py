"""Every typed field reaches vLLM as an argument that vLLM 0.32 has, and nothing reaches it twice."""

import json
from pathlib import Path
from typing import Any

import pytest

from dev.engine_sim.buckets import parse_buckets
from tests.support.tier_bundles import flag
from tierwright.api.engine import EngineSpec
from tierwright.api.latency_buckets import TIME_PER_OUTPUT_TOKEN_BUCKETS, TIME_TO_FIRST_TOKEN_BUCKETS
from tierwright.api.rules.extra_args import GROUPS, sets
from tierwright.engines.engine import LATENCY_BUCKETS, EngineRequest
from tierwright.engines.vllm_arguments import vllm_arguments
from tierwright.hardware.refusal import RefusedError

KNOWN_ARGUMENTS = Path(__file__).parents[3] / "dev" / "engine_sim" / "vllm_arguments.json"
EVERYTHING: dict[str, Any] = {
    "type": "vllm",
    "tensorParallel": 4,
    "pipelineParallel": 2,
    "dataParallel": 2,
    "maxModelLen": 32768,
    "dtype": "bfloat16",
    "quantization": "fp8",
    "batching": {"maxSequences": 16, "maxBatchedTokens": 4096, "chunkedPrefill": True},
    "speculation": {"method": "NGram", "tokens": 5, "disableAboveBatchSize": 8},
    "kvCache": {"dtype": "int8", "memoryFraction": "0.90", "blockSize": 16, "hostOffload": "64Gi"},
    "promptCache": {"enabled": True},
    "extraArgs": ["--performance-mode", "interactivity"],
}


def request(draft_path: str | None = None, drain_seconds: int = 300) -> EngineRequest:
    return EngineRequest("/models/m", draft_path, drain_seconds, 1800, None, None)


def arguments(draft_path: str | None = None, **engine: Any) -> list[str]:
    spec = EngineSpec.model_validate({"type": "vllm", **engine})
    return list(vllm_arguments(spec, "meta/llama", request(draft_path)))


def speculation(args: list[str]) -> dict[str, Any]:
    text = flag(args, "--speculative-config")
    assert text is not None
    config: dict[str, Any] = json.loads(text)
    return config


def test_every_flag_exists_in_vllm_and_takes_as_many_values_as_it_gets() -> None:
    known = {
        name: entry
        for entry in json.loads(KNOWN_ARGUMENTS.read_text())
        for name in [
            *entry["names"],
            *(f"--no-{name[2:]}" for name in entry["names"] if entry.get("negatable")),
        ]
    }
    off: dict[str, Any] = {"batching": {"chunkedPrefill": False}, "promptCache": {"enabled": False}}
    for args in (arguments(**EVERYTHING), arguments(**off)):
        rest = args[1:]
        while rest:
            name, *rest = rest
            values = [] if not rest or rest[0].startswith("--") else [rest.pop(0)]
            assert (known[name]["values"] == "none") == (not values), name
            if "choices" in known[name]:
                assert values[0] in known[name]["choices"], (name, values)


def test_the_model_comes_first_so_that_no_flag_with_several_values_takes_it() -> None:
    args = arguments(**EVERYTHING)
    assert args[0] == "/models/m"
    assert flag(args, "--served-model-name") == "meta/llama"


def test_every_typed_field_is_said_in_its_own_words() -> None:
    args = arguments(**EVERYTHING)
    said = {
        "--tensor-parallel-size": "4",
        "--pipeline-parallel-size": "2",
        "--data-parallel-size": "2",
        "--max-model-len": "32768",
        "--dtype": "bfloat16",
        "--quantization": "fp8",
        "--max-num-seqs": "16",
        "--max-num-batched-tokens": "4096",
        "--kv-cache-dtype": "int8_per_token_head",
        "--gpu-memory-utilization": "0.90",
        "--block-size": "16",
        "--kv-offloading-size": "64",
        "--shutdown-timeout": "300",
        "--port": "8000",
    }
    assert {name: flag(args, name) for name in said} == said
    assert "--enable-chunked-prefill" in args
    assert "--enable-prefix-caching" in args


def test_fields_left_out_leave_the_choice_to_the_engine() -> None:
    assert arguments() == [
        "/models/m",
        "--served-model-name",
        "meta/llama",
        "--port",
        "8000",
        "--shutdown-timeout",
        "300",
        *LATENCY_BUCKETS,
        "--enable-prefix-caching",
    ]


def test_vllm_counts_latencies_at_the_bounds_by_which_objectives_are_judged() -> None:
    """The simulator checks them as vLLM 0.32 does."""
    text = flag(arguments(), "--custom-histogram-buckets")
    assert text is not None
    assert parse_buckets(json.loads(text)) == {
        "inter_token_latency": TIME_PER_OUTPUT_TOKEN_BUCKETS,
        "time_to_first_token": TIME_TO_FIRST_TOKEN_BUCKETS,
    }


def test_switches_can_be_off() -> None:
    args = arguments(batching={"chunkedPrefill": False}, promptCache={"enabled": False})
    assert "--no-enable-chunked-prefill" in args
    assert "--no-enable-prefix-caching" in args


def test_the_users_own_arguments_come_last() -> None:
    assert arguments(**EVERYTHING)[-2:] == ["--performance-mode", "interactivity"]


def test_extra_args_cannot_set_anything_that_is_generated() -> None:
    generated = [name for name in arguments(**EVERYTHING)[1:-2] if name.startswith("--")]
    for name in generated:
        assert any(sets(group, name) for group in GROUPS), f"extraArgs could set {name} again"


@pytest.mark.parametrize(
    ("given", "gibibytes"), [("64Gi", "64"), ("100Gi", "100"), ("512Mi", "0.5"), ("10G", "9.313")]
)
def test_offload_is_counted_in_gibibytes(given: str, gibibytes: str) -> None:
    assert flag(arguments(kvCache={"hostOffload": given}), "--kv-offloading-size") == gibibytes


@pytest.mark.parametrize(("method", "name"), [("NGram", "ngram"), ("MTP", "mtp")])
def test_methods_without_a_draft_model(method: str, name: str) -> None:
    config = speculation(arguments(speculation={"method": method, "tokens": 3}))
    assert config == {"method": name, "num_speculative_tokens": 3}


@pytest.mark.parametrize(("method", "name"), [("DraftModel", "draft_model"), ("Eagle3", "eagle3")])
def test_methods_with_a_draft_model_name_its_folder(method: str, name: str) -> None:
    wanted = {"method": method, "tokens": 3, "draftModel": {"source": "hf://a/b"}}
    config = speculation(arguments("/models/draft", speculation=wanted))
    assert config == {"method": name, "model": "/models/draft", "num_speculative_tokens": 3}


def test_a_draft_method_without_its_model_is_refused() -> None:
    with pytest.raises(RefusedError) as caught:
        arguments(speculation={"method": "Eagle3", "tokens": 3})
    assert caught.value.refusal.path == "spec.engine.speculation.draftModel"


def test_speculation_stops_above_a_batch_size() -> None:
    config = speculation(arguments(**EVERYTHING))
    assert config["num_speculative_tokens_per_batch_size"] == [[1, 8, 5], [9, 16, 0]]


def test_speculation_stops_above_a_batch_size_whatever_the_largest_batch() -> None:
    config = speculation(arguments(speculation={"method": "NGram", "tokens": 5, "disableAboveBatchSize": 8}))
    assert config["num_speculative_tokens_per_batch_size"] == [[1, 8, 5], [9, 4096, 0]]


def test_a_threshold_that_no_batch_exceeds_says_nothing() -> None:
    wanted = {"method": "NGram", "tokens": 5, "disableAboveBatchSize": 16}
    config = speculation(arguments(batching={"maxSequences": 16}, speculation=wanted))
    assert "num_speculative_tokens_per_batch_size" not in config
