"""Serves until it is told to stop, drains then, and ends at once when the engine dies."""

import asyncio
import signal
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import web

from tierwright_worker.errors import DeviceError, SettingsError
from tierwright_worker.server.app import Server

WATCH_SECONDS = 0.1
# What a stream needs to pass an error on before the process is gone.
FAREWELL_SECONDS = 1.0


@dataclass(frozen=True)
class ListenSettings:
    """`drain_seconds`: how long requests in flight may go on after SIGTERM. `port` 0 = any free one."""

    host: str = "0.0.0.0"  # noqa: S104  # a pod's address is not known beforehand
    port: int = 8000
    drain_seconds: float = 60.0


class Listener:
    """One server on one port."""

    def __init__(self, server: Server, settings: ListenSettings) -> None:
        self._server = server
        self._settings = settings
        # Cancelled handlers are how a request whose client has gone ends in the engine.
        self._runner = web.AppRunner(
            server.app(), handler_cancellation=True, access_log=None, shutdown_timeout=FAREWELL_SECONDS
        )
        self._told_to_stop = asyncio.Event()

    async def start(self) -> int:
        """Listen; the port. SettingsError where the address cannot be had."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._settings.host, self._settings.port, backlog=1024)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            where = f"{self._settings.host}:{self._settings.port}"
            raise SettingsError(f"cannot listen on {where}: {error.strerror or error}") from error
        return int(self._runner.addresses[0][1])

    def stop(self) -> None:
        """Begin to drain; a second call ends the draining."""
        if self._told_to_stop.is_set():
            self._server.abort("the server was told to stop at once")
        self._server.draining = True
        self._told_to_stop.set()

    def stop_on_signals(self) -> None:
        """Drain on SIGTERM and SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)

    async def close(self) -> None:
        """Close the port and every connection, at once; `run` does so at its end."""
        await self._runner.cleanup()

    async def run(self) -> None:
        """Until stopped and drained; DeviceError with the reason when the engine dies."""
        reason = "the server is shutting down and the time for draining is over"
        try:
            while not self._told_to_stop.is_set():
                self._raise_failure()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._told_to_stop.wait(), WATCH_SECONDS)
            # Sockets stay open: a request that was on its way gets a 503 that says why, and probes see "not ready".
            await self._until_idle(self._settings.drain_seconds)
            self._raise_failure()
        except DeviceError as error:
            reason = str(error)
            raise
        finally:
            self._server.draining = True
            self._server.abort(reason)
            await self._until_idle(FAREWELL_SECONDS)
            await self.close()

    async def _until_idle(self, seconds: float) -> None:
        # An engine that dies ends its requests, so that waiting for them ends as well.
        with suppress(TimeoutError):
            await asyncio.wait_for(self._server.idle.wait(), seconds)

    def _raise_failure(self) -> None:
        failure = self._server.failure
        if failure is not None:
            raise DeviceError(f"the engine died: {failure}")


async def serve(server: Server, settings: ListenSettings) -> None:
    """Serve until SIGTERM or SIGINT and drained; errors are `Listener.run`'s and `Listener.start`'s."""
    listener = Listener(server, settings)
    await listener.start()
    listener.stop_on_signals()
    await listener.run()
