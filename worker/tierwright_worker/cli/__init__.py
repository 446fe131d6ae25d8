"""The command `tierwright-worker`: serve a model, or fill its compile cache. A failure is one line and an exit status."""

import asyncio
import logging
import os
import sys

from tierwright_worker.cli.flags import parser, settings_of
from tierwright_worker.cli.serve import serve
from tierwright_worker.cli.start import read_model, warm_engine
from tierwright_worker.errors import WorkerError


def main(arguments: list[str] | None = None) -> int:
    """Run a command; the exit status (see `errors`)."""
    settings_given = parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings = settings_of(settings_given)
    try:
        if settings_given.command == "compile":
            warm_engine(settings, read_model(settings))
        else:
            asyncio.run(serve(settings))
    except WorkerError as error:
        print(f"tierwright-worker: {error}", file=sys.stderr)
        return error.exit_status
    return 0


def run() -> None:
    """As `main`, and end the process at once: neither a compilation nor the engine's thread is waited for."""
    status = main()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
