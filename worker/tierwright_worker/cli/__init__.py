"""The command `tierwright-worker`: serve a model, fill its compile cache, or fetch it. A failure is one line and an exit status."""

import argparse
import asyncio
import logging
import os
import sys

from tierwright_worker.cli.flags import parser, settings_of
from tierwright_worker.cli.platform import choose_platform
from tierwright_worker.errors import WorkerError


def main(arguments: list[str] | None = None) -> int:
    """Run a command; the exit status (see `errors`)."""
    options = parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        _COMMANDS[options.command](options)
    except WorkerError as error:
        print(f"tierwright-worker: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print("tierwright-worker: interrupted", file=sys.stderr)
        return 130
    return 0


def run() -> None:
    """As `main`, and end the process at once: neither a compilation nor the engine's thread is waited for."""
    status = main()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


# What a command needs is imported when it is called: a fetch loads no JAX, a server no client of S3.


def _serve(options: argparse.Namespace) -> None:
    _choose_platform(options)
    from tierwright_worker.cli.serve import serve

    asyncio.run(serve(settings_of(options)))


def _compile(options: argparse.Namespace) -> None:
    _choose_platform(options)
    from tierwright_worker.cli.compile import compile_all

    compile_all(settings_of(options))


def _fetch(options: argparse.Namespace) -> None:
    # Before huggingface_hub is read: it would tell the hub about the machine, by requests of their own.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    # Addresses that a hub signs are as good as passwords.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    from tierwright_worker.sources.fetch import FetchSettings, fetch
    from tierwright_worker.sources.source import parse_source

    fetch(
        parse_source(options.source, dict(options.claim)),
        options.to,
        FetchSettings(gguf=options.gguf, parallel=options.parallel),
        lambda line: print(line, flush=True),
    )


def _bench(options: argparse.Namespace) -> None:
    _choose_platform(options)
    from tierwright_worker.cli.bench import bench

    bench(options)


def _choose_platform(options: argparse.Namespace) -> None:
    cores: int = getattr(options, "tensor_parallel_size", 1)
    choose_platform(options.platform, compile_cache=options.compile_cache, cores=cores, dtype=options.dtype)


_COMMANDS = {"serve": _serve, "compile": _compile, "fetch": _fetch, "bench": _bench}
