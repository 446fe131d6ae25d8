"""What a worker is told: flags, spelt as vLLM spells them where it has the same, to one frozen value."""

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tierwright_worker import __version__
from tierwright_worker.cli.histograms import histogram_buckets
from tierwright_worker.cli.platform import PLATFORMS

_DTYPES = ("float32", "bfloat16", "int8")
_CACHE_DTYPES = ("auto", *_DTYPES)
_METHODS = ("ngram", "draft")
BENCH_PARTS = ("gears", "steps", "process")


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """All settings of one worker. Sizes in tokens, times in seconds."""

    model: Path
    served_model_names: tuple[str, ...]
    weights_cache: Path
    compile_cache: Path | None
    dtype: str
    kv_cache_dtype: str
    kernels: str
    tensor_parallel_size: int
    max_model_len: int | None
    max_num_seqs: int
    max_queued_requests: int
    max_queued_tokens: int | None
    prefill_token_limit: int
    speculative_tokens: int
    speculation_disable_above_batch: int | None
    length_buckets: tuple[int, ...]
    prefill_buckets: tuple[int, ...]
    prompt_cache_page: int
    prompt_cache_device_pages: int
    prompt_cache_host_pages: int
    prompt_cache_ttl: float
    host: str
    port: int
    drain_timeout: float
    api_keys: tuple[str, ...]
    speculation_method: str
    speculative_model: Path | None
    layered_entropy: float | None
    layered_share: float
    histogram_buckets: Mapping[str, tuple[float, ...]]


def parser() -> argparse.ArgumentParser:
    """The command line. Also the source of the flags' reference page."""
    root = argparse.ArgumentParser(
        prog="tierwright-worker",
        allow_abbrev=False,
        description="Serves a Llama-class model from static-shape JAX programs.",
    )
    root.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = root.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", allow_abbrev=False, help="serve a model over HTTP")
    _model_flags(serve)
    _server_flags(serve)
    compile_only = commands.add_parser(
        "compile", allow_abbrev=False, help="fill the compile cache, then end; no port is opened"
    )
    _model_flags(compile_only)
    fetch_only = commands.add_parser(
        "fetch", allow_abbrev=False, help="bring a model's files onto a volume, whole and checked, then end"
    )
    _fetch_flags(fetch_only)
    bench = commands.add_parser(
        "bench", allow_abbrev=False, help="measure what a fast gear is worth with this model on this machine"
    )
    _model_flags(bench)
    _bench_flags(bench)
    return root


def _model_flags(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--model", type=Path, required=True, help="a Hugging Face folder or a .gguf file")
    add(
        "--weights-cache",
        type=Path,
        default=Path("/cache/weights"),
        help="where converted GGUF files are kept",
    )
    add("--compile-cache", type=Path, default=None, help="where compiled programs are kept; default: nowhere")
    add("--platform", choices=PLATFORMS, default="auto", help="the kind of device; auto: what JAX finds")
    add(
        "--dtype",
        choices=_DTYPES,
        default="float32",
        help="of the weights; int8: with a scale for each 32 inputs",
    )
    add(
        "--kv-cache-dtype",
        choices=_CACHE_DTYPES,
        default="auto",
        help="of keys and values; auto: as --dtype, and float32 for int8 weights; int8: a scale per token and head",
    )
    add(
        "--kernels",
        choices=("auto", "on", "off"),
        default="auto",
        help="the processor's own kernels; auto: where they are built and the device is the CPU",
    )
    add("--tensor-parallel-size", type=_positive, default=1, help="devices over which the model is cut")
    add(
        "--max-model-len",
        type=_positive,
        default=None,
        help="prompt and answer together; default: the model's own",
    )
    add("--max-num-seqs", type=_positive, default=8, help="requests that are computed at once (slots)")
    add("--speculative-tokens", type=_drafts, default=0, help="most tokens drafted in a step; 0 = off")
    add(
        "--speculation-method",
        choices=_METHODS,
        default="ngram",
        help="where drafts come from: look-up in the request's own text, or a small model",
    )
    add(
        "--speculative-model",
        type=Path,
        default=None,
        help="the model that drafts, of the same tokenizer: a Hugging Face folder or a .gguf file",
    )
    add(
        "--length-buckets", type=_sizes, default=(), help="cache lengths with programs of their own: 512,2048"
    )
    add("--prefill-buckets", type=_sizes, default=(), help="sizes of prompt chunks: 64,256")
    add(
        "--prompt-cache-page",
        type=_count,
        default=64,
        help="tokens of a page of the prompt cache; 0 = no cache",
    )


def _server_flags(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add(
        "--served-model-name",
        nargs="+",
        type=_text,
        default=[],
        help="names that requests may ask for; default: the model's path",
    )
    add("--max-num-queued-reqs", type=_positive, default=256, help="requests that may wait; more get 503")
    add(
        "--max-num-queued-tokens",
        type=_positive,
        default=None,
        help="prompt tokens that may wait, all together",
    )
    add(
        "--max-num-batched-tokens",
        type=_positive,
        default=256,
        help="prompt tokens read in a step while others decode",
    )
    add(
        "--speculation-disable-above-batch",
        type=_positive,
        default=None,
        help="decoding requests above which nothing is drafted",
    )
    add(
        "--layered-entropy",
        type=float,
        default=None,
        help="LOSSY: positions of at most this entropy (nats) let drafts pass that are not the model's choice; default: none",
    )
    add(
        "--layered-share",
        type=float,
        default=0.5,
        help="LOSSY: of the likeliest token's probability, the share that such a draft needs",
    )
    add("--prompt-cache-device-pages", type=_pages, default=256, help="pages kept on the device")
    add("--prompt-cache-host-pages", type=_pages, default=1024, help="pages kept in host memory")
    add(
        "--prompt-cache-ttl",
        type=_lifetime,
        default=300.0,
        help="seconds that a page lives after its last use",
    )
    add("--host", default="0.0.0.0", help="address to listen on")  # noqa: S104  # a pod's address is not known beforehand
    add("--port", type=_port, default=8000, help="port to listen on; 0 = any free one")
    add(
        "--shutdown-timeout",
        type=_seconds,
        default=60.0,
        help="seconds that requests may go on after SIGTERM",
    )
    add(
        "--custom-histogram-buckets",
        type=histogram_buckets,
        default={},
        help="upper bounds, in seconds, of latency histograms, as JSON by vLLM's names of their families: "
        '{"time_to_first_token": [0.1, 0.5, 1]}; default: vLLM\'s own',
    )
    add(
        "--api-key",
        action="append",
        type=_text,
        default=[],
        help="a key that opens /v1; may be given several times",
    )


def _fetch_flags(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add(
        "--source",
        required=True,
        help="hf://owner/repo@revision, s3://bucket/prefix, file:///path or pvc://claim/path",
    )
    add("--to", type=Path, required=True, help="the folder that is to hold the model's files")
    add("--gguf", default=None, metavar="NAME", help="which GGUF file to take where a source holds several")
    add(
        "--claim",
        action="append",
        type=_claim,
        default=[],
        metavar="NAME=PATH",
        help="where the volume of a pvc:// source is mounted; may be given several times",
    )
    add("--parallel", type=_positive, default=4, help="files that are fetched at once")


def _bench_flags(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    command.set_defaults(speculative_tokens=8)
    add(
        "--only",
        type=_parts,
        default=BENCH_PARTS,
        help="of gears, steps and process, those that are wanted: gears,steps",
    )
    add("--passes", type=_positive, default=3, help="times that every prompt is asked; the best counts")
    add("--starts", type=_positive, default=2, help="times that a worker is started; the best counts")
    add("--every", type=_positive, default=1, help="take each Nth prompt of the set alone, for a quick look")
    add("--json", type=_new_file, default=None, help="a file for the figures and all that they come from")


def model_flags_of(options: argparse.Namespace, changed: Mapping[str, object]) -> list[str]:
    """The model's flags as words of a command line; `changed` by destination, None leaves a flag out."""
    filler = argparse.ArgumentParser()
    _model_flags(filler)
    words = []
    for action in filler._actions:
        value = changed.get(action.dest, getattr(options, action.dest, None))
        if action.dest == "help" or value is None or value == ():
            continue
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        words += [action.option_strings[0], text]
    return words


def settings_of(options: argparse.Namespace) -> WorkerSettings:
    """The settings; those of a server stand at their defaults for `compile`."""
    if options.command != "serve":
        filler = argparse.ArgumentParser()
        _server_flags(filler)
        options = filler.parse_args([], options)
    return WorkerSettings(
        model=options.model,
        served_model_names=tuple(options.served_model_name) or (str(options.model),),
        weights_cache=options.weights_cache,
        compile_cache=options.compile_cache,
        dtype=options.dtype,
        kv_cache_dtype=options.kv_cache_dtype,
        kernels=options.kernels,
        tensor_parallel_size=options.tensor_parallel_size,
        max_model_len=options.max_model_len,
        max_num_seqs=options.max_num_seqs,
        max_queued_requests=options.max_num_queued_reqs,
        max_queued_tokens=options.max_num_queued_tokens,
        prefill_token_limit=options.max_num_batched_tokens,
        speculative_tokens=options.speculative_tokens,
        speculation_disable_above_batch=options.speculation_disable_above_batch,
        length_buckets=options.length_buckets,
        prefill_buckets=options.prefill_buckets,
        prompt_cache_page=options.prompt_cache_page,
        prompt_cache_device_pages=options.prompt_cache_device_pages,
        prompt_cache_host_pages=options.prompt_cache_host_pages,
        prompt_cache_ttl=options.prompt_cache_ttl,
        host=options.host,
        port=options.port,
        drain_timeout=options.shutdown_timeout,
        api_keys=tuple(options.api_key),
        speculation_method=options.speculation_method,
        speculative_model=options.speculative_model,
        layered_entropy=options.layered_entropy,
        layered_share=options.layered_share,
        histogram_buckets=options.custom_histogram_buckets,
    )


def _whole(text: str, least: int, most: int = 2**31 - 1) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"{text} is not from {least} to {most}")
    return number


def _positive(text: str) -> int:
    return _whole(text, 1)


def _count(text: str) -> int:
    return _whole(text, 0)


def _drafts(text: str) -> int:
    # More rows would not fit into the shortest cache.
    return _whole(text, 0, 64)


def _pages(text: str) -> int:
    return _whole(text, 0, 2**24)


def _port(text: str) -> int:
    return _whole(text, 0, 65535)


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: seconds from 0 on are needed")
    return number


def _lifetime(text: str) -> float:
    number = _seconds(text)
    if number == 0:
        raise argparse.ArgumentTypeError("nothing would live; --prompt-cache-page 0 switches the cache off")
    return number


def _text(text: str) -> str:
    # A variable that is not set makes an empty key, which would open the API to everybody.
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty")
    return text


def _claim(text: str) -> tuple[str, Path]:
    name, separator, path = text.partition("=")
    if not (name and separator and path.startswith("/")):
        raise argparse.ArgumentTypeError(f"{text}: write NAME=/path")
    return name, Path(path)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_positive(part.strip()) for part in text.split(","))


def _new_file(text: str) -> Path:
    # Said now rather than after half an hour of measuring.
    if not Path(text).absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: its folder is not there")
    return Path(text)


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(part for part in text.split(",") if part)
    unknown = [part for part in parts if part not in BENCH_PARTS]
    if unknown or not parts:
        raise argparse.ArgumentTypeError(f"{text!r}: each must be one of {', '.join(BENCH_PARTS)}")
    return parts
