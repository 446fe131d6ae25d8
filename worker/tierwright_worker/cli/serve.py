"""Serves: the port is open from the start and says "not ready" until the engine is warm."""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

from tierwright_worker.cli.flags import WorkerSettings
from tierwright_worker.cli.start import read_model, running_engine, warm_engine
from tierwright_worker.engine.runner import EngineRunner
from tierwright_worker.errors import DeviceError, WorkerError
from tierwright_worker.server.app import Server, ServerSettings
from tierwright_worker.server.lifecycle import Listener, ListenSettings


async def serve(settings: WorkerSettings) -> None:
    """Until SIGTERM or SIGINT and drained.

    Raises:
        WorkerError: the model cannot be served, the address cannot be had, or the engine died.
    """
    # What a stranger sends that is no HTTP is answered, and is no news; what fails in a request, the server tells itself.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    model = read_model(settings)
    server = Server(
        ServerSettings(
            model_names=settings.served_model_names,
            source=str(settings.model),
            api_keys=settings.api_keys,
            drafts=settings.speculative_tokens,
            histogram_buckets=settings.histogram_buckets,
        ),
        model.text,
    )
    listener = Listener(server, ListenSettings(settings.host, settings.port, settings.drain_timeout))
    await listener.start()
    listener.stop_on_signals()
    serving = asyncio.ensure_future(listener.run())
    warming = _in_thread(lambda: running_engine(settings, model, warm_engine(settings, model)))
    either: set[asyncio.Future[Any]] = {serving, warming}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if warming.done() and not serving.done():
        if warming.exception() is not None:
            serving.cancel()
            await asyncio.wait({serving})
        else:
            server.attach(warming.result())
    if warming.done():
        warming.result()
    try:
        await serving
    except DeviceError as error:
        raise own_kind(error, warming.result().error if warming.done() else None) from error


def own_kind(died: DeviceError, cause: BaseException | None) -> WorkerError:
    """The error of an engine that died: of its cause's kind, and so with its exit status, where the worker has one for it."""
    return type(cause)(str(died)) if isinstance(cause, WorkerError) else died


def _in_thread(work: Callable[[], EngineRunner]) -> "asyncio.Future[EngineRunner]":
    """Run in a thread that does not keep the process alive: SIGTERM must end a compilation as well."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[EngineRunner] = loop.create_future()

    def settle(engine: EngineRunner | None, error: BaseException | None) -> None:
        if result.done():
            return
        if engine is not None:
            result.set_result(engine)
        elif error is not None:
            result.set_exception(error)

    def run() -> None:
        try:
            engine, error = work(), None
        except BaseException as failure:  # whatever it is, it belongs to the one who waits
            engine, error = None, failure
        loop.call_soon_threadsafe(settle, engine, error)

    threading.Thread(target=run, name="warm-up", daemon=True).start()
    return result
