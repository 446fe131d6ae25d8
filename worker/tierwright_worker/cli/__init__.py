"""The command `tierwright-worker`: serve a model, fill its compile cache, or fetch it. A failure is one line and an exit status."""

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
from types import FrameType

from tierwright_worker.cli.flags import parser, settings_of
from tierwright_worker.cli.platform import choose_platform
from tierwright_worker.errors import OutOfMemoryError, WorkerError

TOLD_TO_STOP = 143  # as a shell counts an end by SIGTERM
_log = logging.getLogger(__name__)


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
    except MemoryError:
        print("tierwright-worker: there is not enough memory", file=sys.stderr)
        return OutOfMemoryError.exit_status
    except Exception as error:
        _log.exception("a defect of the worker itself")
        words = " ".join(str(error).split())[:500]
        print(
            f"tierwright-worker: a defect of the worker itself: {type(error).__name__}: {words}",
            file=sys.stderr,
        )
        return WorkerError.exit_status
    return 0


def run() -> None:
    """As `main`, and end the process at once: neither a compilation nor the engine's thread is waited for."""
    _end_when_told()
    status = main()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _end_when_told() -> None:
    """End on SIGTERM at once, whatever compiled code is running, until somebody else handles it.

    Without a handler the system ignores the signal where this is the first process of a container.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, _told)

    def wait() -> None:
        while number := os.read(reading, 1):
            if number[0] == signal.SIGTERM and signal.getsignal(signal.SIGTERM) is _told:
                os.write(2, b"tierwright-worker: told to stop before it was done\n")
                os._exit(TOLD_TO_STOP)

    threading.Thread(target=wait, name="signals", daemon=True).start()


def _told(_number: int, _frame: FrameType | None) -> None:
    """Nothing: the waiting thread ends the process, for this one may be in compiled code for long."""


# What a command needs is imported when it is called: a fetch loads no JAX, a server no client of S3.


def _serve(options: argparse.Namespace) -> None:
    from tierwright_worker.loading.memory import one_heap

    one_heap()
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
