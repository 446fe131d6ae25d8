"""Arguments that parse but cannot start an engine say why; those that can describe the engine that was asked for."""

import pytest

from dev.engine_sim.cli import parse_command_line
from dev.engine_sim.config import ConfigError, build_config
from dev.engine_sim.settings import GIB, Settings, SettingsError, read_settings
from dev.engine_sim.speculation import Speculation
from tests.unit.engine_sim.running import config_of

SMALL_DEVICE = Settings(device_memory_bytes=24 * GIB, weights_bytes=16 * GIB, model_max_len=8192)


def speculative(json: str) -> tuple[str, str]:
    return ("--speculative-config", json)


def test_defaults_depend_on_the_device_as_vllms_do() -> None:
    large, small = config_of(), config_of(settings=SMALL_DEVICE)
    assert (large.limits.max_sequences, large.limits.max_batched_tokens) == (1024, 8192)
    assert (small.limits.max_sequences, small.limits.max_batched_tokens) == (256, 2048)
    assert (large.block_size, large.max_model_len, large.prefix_caching) == (16, 131_072, True)


def test_each_argument_with_effect_reaches_the_engine() -> None:
    config = config_of(
        *("--max-num-seqs", "16", "--max-num-active-seqs", "4", "--max-num-batched-tokens", "2k"),
        *("--max-model-len", "4096", "--block-size", "32", "--num-gpu-blocks-override", "200"),
        *("--no-enable-prefix-caching", "--max-num-queued-reqs", "9", "--max-num-queued-tokens", "5k"),
        *("--long-prefill-token-threshold", "300", "--shutdown-timeout", "20", "--api-key", "k1", "k2"),
        *("--spec-method", "ngram", "--spec-tokens", "3", "--tensor-parallel-size", "2", "--enforce-eager"),
    )
    assert (config.limits.max_sequences, config.limits.max_batched_tokens) == (4, 2000)
    assert (config.limits.max_queued_requests, config.limits.max_queued_tokens) == (9, 5000)
    assert config.limits.long_prefill_threshold == 300
    assert (config.block_size, config.total_blocks, config.kv_cache_tokens) == (32, 200, 6400)
    assert (config.prefix_caching, config.shutdown_timeout, config.api_keys) == (False, 20, ("k1", "k2"))
    assert config.speculation == Speculation("ngram", 3)
    assert config.without_effect == ("enforce_eager",)


def test_kv_cache_size_follows_memory_dtype_and_ranks() -> None:
    short = ("--max-model-len", "8k")
    base = config_of("--kv-cache-memory-bytes", "4G", *short)
    assert base.kv_cache_tokens == 4 * GIB // 131_072
    fp8 = config_of("--kv-cache-memory-bytes", "4G", "--kv-cache-dtype", "fp8", *short)
    assert fp8.kv_cache_tokens == 2 * base.kv_cache_tokens
    two_ranks = config_of("--kv-cache-memory-bytes", "4G", "-tp", "2", *short)
    assert two_ranks.kv_cache_tokens == 2 * base.kv_cache_tokens
    assert config_of("--gpu-memory-utilization", "0.5").kv_cache_tokens < config_of().kv_cache_tokens


def test_model_length_auto_is_the_longest_that_fits() -> None:
    config = config_of("--max-model-len", "auto", "--num-gpu-blocks-override", "100")
    assert config.max_model_len == 1600


def test_drafting_costs_time_only_where_a_model_does_it() -> None:
    ngram = config_of(*speculative('{"method": "ngram", "num_speculative_tokens": 5}'))
    eagle = config_of(*speculative('{"method": "eagle3", "model": "e", "num_speculative_tokens": 5}'))
    assert ngram.step_time.per_draft_token == 0
    assert eagle.step_time.per_draft_token > 0


def test_drafted_tokens_follow_the_table_of_batch_sizes() -> None:
    config = config_of(
        *speculative(
            '{"method": "ngram", "num_speculative_tokens": 5, '
            '"num_speculative_tokens_per_batch_size": [[1, 8, 4], [9, 4096, 0]]}'
        )
    )
    assert config.speculation is not None
    assert [config.speculation.draft_tokens(size) for size in (1, 8, 9, 4096, 4097)] == [4, 4, 0, 0, 5]


def test_a_key_from_the_environment_counts_unless_one_is_given() -> None:
    assert build_config(parse_command_line(["m"]), Settings(), "env").api_keys == ("env",)
    assert build_config(parse_command_line(["m", "--api-key", "arg"]), Settings(), "env").api_keys == ("arg",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--max-num-seqs", "0"), "max_num_seqs: 0 must be at least 1"),
        (("--max-num-seqs", "100", "--max-num-batched-tokens", "50"), "smaller than max_num_seqs"),
        (("--max-num-seqs", "8", "--max-num-active-seqs", "9"), "max_num_active_seqs .* larger"),
        (("--gpu-memory-utilization", "1.5"), "gpu_memory_utilization"),
        (("--gpu-memory-utilization", "0.1"), "No available memory for the cache blocks"),
        (("--max-model-len", "200k"), "greater than the model's own context length"),
        (("--num-gpu-blocks-override", "10", "--max-model-len", "2048"), "KV cache holds 160 tokens"),
        (("--no-enable-chunked-prefill", "--max-model-len", "16384"), "without chunked prefill"),
        (speculative("[]"), "must be a JSON object"),
        (
            speculative('{"method": "ngram", "num_spec_tokens": 5}'),
            r"speculative_config\.num_spec_tokens: unexpected",
        ),
        (speculative('{"method": "ngram"}'), r"num_speculative_tokens: required"),
        (speculative('{"num_speculative_tokens": 5}'), r"method: required"),
        (speculative('{"method": "magic", "num_speculative_tokens": 5}'), "'magic' is none of"),
        (speculative('{"method": "eagle3", "num_speculative_tokens": 5}'), "eagle3 needs the draft's model"),
        (speculative('{"method": "ngram", "num_speculative_tokens": 0}'), "at least 1"),
        (speculative('{"method": "ngram", "num_speculative_tokens": true}'), "whole number"),
        (
            speculative(
                '{"method":"ngram","num_speculative_tokens":5,"prompt_lookup_min":5,"prompt_lookup_max":2}'
            ),
            "prompt_lookup_min: larger",
        ),
        (
            speculative(
                '{"method":"ngram","num_speculative_tokens":5,"num_speculative_tokens_per_batch_size":[[1]]}'
            ),
            "list of",
        ),
        (("--custom-histogram-buckets", "[1]"), "custom_histogram_buckets: must be a JSON object"),
        (("--custom-histogram-buckets", '{"latency": [1]}'), "unknown families latency"),
        (("--custom-histogram-buckets", '{"inter_token_latency": 1}'), "must be a list of numbers"),
        (("--custom-histogram-buckets", '{"inter_token_latency": []}'), "must be a list of numbers"),
        (("--custom-histogram-buckets", '{"inter_token_latency": [true]}'), "must be a list of numbers"),
        (("--custom-histogram-buckets", '{"inter_token_latency": [0, 1]}'), "positive, finite and rising"),
        (("--custom-histogram-buckets", '{"inter_token_latency": [1, 1]}'), "positive, finite and rising"),
        (
            ("--custom-histogram-buckets", '{"inter_token_latency": [1, 1e999]}'),
            "positive, finite and rising",
        ),
        (
            (*speculative('{"method": "ngram", "num_speculative_tokens": 5}'), "--spec-tokens", "4"),
            "given twice",
        ),
    ],
)
def test_what_vllm_would_not_start_with_says_why(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config_of(*arguments)


def test_settings_come_from_the_environment_and_other_variables_are_left_alone() -> None:
    settings = read_settings(
        {"ENGINE_SIM_TIME_SCALE": "0.5", "ENGINE_SIM_HANG_AT_START": "true", "HOME": "/"}
    )
    assert settings == Settings(time_scale=0.5, hang_at_start=True)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ENGINE_SIM_TIME_SCAL", "1", "no such setting; known are .*ENGINE_SIM_TIME_SCALE"),
        ("ENGINE_SIM_TIME_SCALE", "fast", "not a number"),
        ("ENGINE_SIM_TIME_SCALE", "nan", "finite"),
        ("ENGINE_SIM_TIME_SCALE", "-1", "at least 0"),
        ("ENGINE_SIM_ACCEPTANCE_FREE", "1.5", "between 0 and 1"),
        ("ENGINE_SIM_WEIGHTS_BYTES", "16G", "not an integer"),
        ("ENGINE_SIM_KV_BYTES_PER_TOKEN", "0", "above 0"),
        ("ENGINE_SIM_HANG_AT_START", "perhaps", "not true or false"),
    ],
)
def test_a_bad_setting_is_named(name: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}: .*{message}"):
        read_settings({name: value})
