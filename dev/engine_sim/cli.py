"""Parses a `vllm serve` command line: every argument that vLLM knows is known, any other ends with exit code 2."""

import argparse
import functools
import json
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

DEFAULT_MODEL = "Qwen/Qwen3-0.6B"
MULTIPLIERS = {
    "k": 1000,
    "m": 1000**2,
    "g": 1000**3,
    "t": 1000**4,
    "K": 1024,
    "M": 1024**2,
    "G": 1024**3,
    "T": 1024**4,
}
WHOLE_NUMBERS = {
    "--port",
    "--max-num-seqs",
    "--max-num-active-seqs",
    "--max-num-queued-reqs",
    "--block-size",
    "--num-gpu-blocks-override",
    "--long-prefill-token-threshold",
    "--shutdown-timeout",
    "--tensor-parallel-size",
    "--pipeline-parallel-size",
    "--data-parallel-size",
    "--spec-tokens",
    "--seed",
}
FRACTIONS = {"--gpu-memory-utilization", "--kv-offloading-size", "--cpu-offload-gb", "--watermark"}


def argument_table() -> list[dict[str, Any]]:
    """The table that `extract_arguments` made from vLLM's help page."""
    table: list[dict[str, Any]] = json.loads(
        resources.files(__package__).joinpath("vllm_arguments.json").read_text(encoding="utf-8")
    )
    return table


@functools.cache
def build_parser() -> argparse.ArgumentParser:
    """A parser for the container's arguments, which follow vLLM's own entry point `vllm serve`."""
    parser = argparse.ArgumentParser(prog="vllm serve", allow_abbrev=False)
    parser.add_argument("model_tag", nargs="?", default=None)
    for entry in argument_table():
        _add(parser, entry)
    return parser


def parse_command_line(arguments: Sequence[str]) -> argparse.Namespace:
    """Arguments as vLLM would read them; absent ones are None. Ends the process with code 2 as argparse does."""
    parser = build_parser()
    parsed = parser.parse_args(_normalised(parser, arguments))
    if parsed.config is not None:
        parser.error(
            "argument --config: the engine simulator reads no configuration file; give the arguments themselves"
        )
    if parsed.model_tag is not None and parsed.model is not None and parsed.model_tag != parsed.model:
        parser.error("argument --model: the model is already given as the positional argument")
    parsed.model = parsed.model_tag or parsed.model or DEFAULT_MODEL
    return parsed


def given_arguments(parsed: argparse.Namespace) -> list[str]:
    """Destinations of the arguments that were set, sorted."""
    return sorted(name for name, value in vars(parsed).items() if value is not None and name != "model_tag")


def human_integer(text: str) -> int:
    """`32768`, `32k` (thousands), `32K` (1024s), `25.6k`; ArgumentTypeError otherwise."""
    match = re.fullmatch(r"(-?\d+)|(\d+(?:\.\d+)?)([kmgtKMGT])", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"invalid integer value: {text!r} (examples: 4096, 32k, 32K, 25.6k)")
    if match[1] is not None:
        return int(match[1])
    value = float(match[2]) * MULTIPLIERS[match[3]]
    if value != int(value) and match[3].isupper():
        raise argparse.ArgumentTypeError(
            f"invalid integer value: {text!r}: decimals need a decimal multiplier"
        )
    return int(value)


def model_length(text: str) -> int:
    """A context length, where `auto` and -1 mean: the longest that fits; returned as -1."""
    length = -1 if text == "auto" else human_integer(text)
    if length < 1 and length != -1:
        raise argparse.ArgumentTypeError(f"invalid model length: {text!r}")
    return length


def json_value(text: str) -> Any:
    """A JSON document, as vLLM's parser takes it."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"Value {text} cannot be converted to JSON: {error}") from None


def _add(parser: argparse.ArgumentParser, entry: dict[str, Any]) -> None:
    name = entry["names"][0]
    options: dict[str, Any] = {"default": None}
    if entry.get("negatable"):
        options["action"] = argparse.BooleanOptionalAction
    elif entry["values"] == "none":
        options["action"] = "store_const"
        options["const"] = True
    else:
        options["type"] = _type_of(name, entry.get("kind"))
        options["choices"] = entry.get("choices")
        options["nargs"] = {"one": None, "optional": "?", "many": "+"}[entry["values"]]
    parser.add_argument(*entry["names"], **options)


def _type_of(name: str, kind: str | None) -> Any:
    if name == "--max-model-len":
        return model_length
    if kind is not None:
        return {"json": json_value, "integer": human_integer}[kind]
    if name in WHOLE_NUMBERS:
        return int
    return float if name in FRACTIONS else str


def _normalised(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> list[str]:
    """Arguments with `_` for `-` in names undone and dotted JSON (`--speculative-config.method ngram`) gathered."""
    result: list[str] = []
    gathered: dict[str, dict[str, Any]] = {}
    pending = list(arguments)
    while pending:
        argument = pending.pop(0)
        name, equals, value = argument.partition("=")
        if name.startswith("--"):
            name = "--" + name[2:].replace("_", "-") if "." not in name else name
        base, dot, path = name.partition(".")
        if not (name.startswith("-") and dot and re.fullmatch(r"--?[a-zA-Z][\w-]*", base)):
            result.append(f"{name}{equals}{value}")
            continue
        if not equals:
            if not pending:
                parser.error(f"argument {name}: expected one argument")
            value = pending.pop(0)
        _set_path(gathered.setdefault(base.replace("_", "-"), {}), path.split("."), value)
    for base, document in gathered.items():
        result += [base, json.dumps(document)]
    return result


def _set_path(document: dict[str, Any], path: list[str], text: str) -> None:
    for key in path[:-1]:
        document = document.setdefault(key, {})
    try:
        document[path[-1]] = json.loads(text)
    except json.JSONDecodeError:
        document[path[-1]] = text
