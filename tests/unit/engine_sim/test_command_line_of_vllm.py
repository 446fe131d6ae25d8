"""The simulator's command line takes what vLLM's takes, refuses what vLLM's refuses, and with the same exit code."""

import argparse
from collections.abc import Mapping

import pytest

from dev.engine_sim.cli import argument_table, given_arguments, human_integer, parse_command_line
from dev.engine_sim.extract_arguments import arguments_of


def sample_value(entry: Mapping[str, object]) -> list[str]:
    if entry["values"] == "none":
        return []
    choices = entry.get("choices")
    if isinstance(choices, list):
        return [str(choices[0])]
    return {"json": ["{}"], "integer": ["1k"]}.get(str(entry.get("kind")), ["7"])


def destination_of(entry: dict[str, list[str]]) -> str:
    return entry["names"][0].removeprefix("--").replace("-", "_")


# A configuration file is refused on purpose, see below.
READ_ARGUMENTS = [entry for entry in argument_table() if "--config" not in entry["names"]]


@pytest.mark.parametrize("entry", READ_ARGUMENTS, ids=lambda entry: str(entry["names"][0]))
def test_every_spelling_of_every_argument_is_known(entry: dict[str, list[str]]) -> None:
    for name in entry["names"]:
        spellings = [name, name[:2] + name[2:].replace("-", "_")] if name.startswith("--") else [name]
        spellings += [f"--no-{name[2:]}"] if entry.get("negatable") and name.startswith("--") else []
        model = [] if name == "--model" else ["some/model"]
        for spelling in spellings:
            parsed = parse_command_line([*model, spelling, *sample_value(entry)])
            assert given_arguments(parsed) == sorted({"model", destination_of(entry)})


def test_the_operators_argument_vector_is_understood() -> None:
    arguments = (
        "/models/llama --served-model-name llama llama-fast --host :: --port=8001 --max-num-seqs 16 "
        "--max-model-len 32K --no-enable-prefix-caching --speculative-config"
    )
    parsed = parse_command_line([*arguments.split(), '{"method": "ngram", "num_speculative_tokens": 5}'])
    assert parsed.model == "/models/llama"
    assert parsed.served_model_name == ["llama", "llama-fast"]
    assert (parsed.port, parsed.max_num_seqs, parsed.max_model_len) == (8001, 16, 32768)
    assert parsed.enable_prefix_caching is False
    assert parsed.speculative_config == {"method": "ngram", "num_speculative_tokens": 5}


def test_dotted_json_keys_are_gathered() -> None:
    arguments = (
        "m --speculative-config.method ngram --speculative_config.num_speculative_tokens=4 "
        "-cc.pass_config.fuse true"
    )
    parsed = parse_command_line(arguments.split())
    assert parsed.speculative_config == {"method": "ngram", "num_speculative_tokens": 4}
    assert parsed.compilation_config == {"pass_config": {"fuse": True}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--swap-space", "4"], "unrecognized arguments: --swap-space 4"),
        (["--num-scheduler-steps", "8"], "unrecognized arguments: --num-scheduler-steps 8"),
        (["--max-num-seq", "4"], "unrecognized arguments: --max-num-seq 4"),
        (["--port", "http"], "argument --port: invalid int value: 'http'"),
        (["--max-num-seqs"], "argument --max-num-seqs: expected one argument"),
        (["--kv-cache-dtype", "int8"], "argument --kv-cache-dtype: invalid choice: 'int8'"),
        (["--speculative-config", "{method: ngram}"], "cannot be converted to JSON"),
        (["--max-model-len", "0"], "invalid model length: '0'"),
        (["--max-num-batched-tokens", "1.3K"], "decimals need a decimal multiplier"),
        (["--enable-prefix-caching=yes"], "ignored explicit argument 'yes'"),
        (["--model", "other"], "the model is already given"),
        (["--config", "vllm.yaml"], "reads no configuration file"),
        (["--speculative-config.method"], "expected one argument"),
    ],
)
def test_what_vllm_would_not_parse_ends_with_code_2_and_names_the_argument(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_command_line(["m", *arguments])
    assert ended.value.code == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("vllm serve: error: ")
    assert message in error


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4096", 4096),
        ("32k", 32_000),
        ("32K", 32_768),
        ("25.6k", 25_600),
        ("1.5K", 1536),
        ("2M", 2 * 1024**2),
    ],
)
def test_human_readable_integers(text: str, number: int) -> None:
    assert human_integer(text) == number


@pytest.mark.parametrize("text", ["", "k", "12kk", "1.5", "many"])
def test_what_is_no_integer_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="invalid integer value"):
        human_integer(text)


def test_the_table_is_read_from_the_shape_of_a_help_page() -> None:
    page = """usage: vllm serve [model_tag] [options]

options:
  --plain-switch
                        Turns it on. (default: False)
  --both-ways, --no-both-ways, -bw
                        On or off. (default: None)
  --size SIZE, -s SIZE  How large. Parse human-readable integers like '1k'.
  --names NAMES [NAMES ...]
                        Several.
  --token [TOKEN]       Perhaps a value.
  --method {one,two,None}
                        A closed set.
  --parser {one,two} or name registered in --parser-plugin
                        An open set.
  --format ['auto', 'hf']
                        An open set, otherwise written.
  -h, --help            show this help message and exit

Group:
  Some words about it.

  --shape-config SHAPE_CONFIG
                        Should either be a valid JSON string or JSON
                        keys passed individually.
"""
    assert arguments_of(page) == [
        {"names": ["--plain-switch"], "values": "none"},
        {"names": ["--both-ways", "-bw"], "negatable": True, "values": "none"},
        {"names": ["--size", "-s"], "values": "one", "kind": "integer"},
        {"names": ["--names"], "values": "many"},
        {"names": ["--token"], "values": "optional"},
        {"names": ["--method"], "values": "one", "choices": ["one", "two", "None"]},
        {"names": ["--parser"], "values": "one"},
        {"names": ["--format"], "values": "one"},
        {"names": ["--shape-config"], "values": "one", "kind": "json"},
    ]
