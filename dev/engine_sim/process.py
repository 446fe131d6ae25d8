"""Lives as a server process does: port closed while starting, ready, and on SIGTERM drained or aborted.

SIGUSR1, which a vLLM does not know, lets /metrics fail from then on, and the next one lets it answer again.
"""

import asyncio
import contextlib
import signal
import sys

from aiohttp import web

from dev.engine_sim.config import EngineConfig
from dev.engine_sim.server import Server
from dev.engine_sim.settings import Settings

# How long handlers may take to write their last words once the engine has stopped.
LAST_WORDS_SECONDS = 2.0


async def serve(config: EngineConfig, settings: Settings) -> int:
    """Run one engine until SIGTERM or SIGINT; returns the process's exit code."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    say(
        f"loading {config.model} (simulated): ready in {settings.start_seconds:g} s, the port stays closed until then"
    )
    if config.without_effect:
        say(f"arguments without effect in a simulation: {', '.join(config.without_effect)}")
    if await _stopped_within(stop, None if settings.hang_at_start else settings.start_seconds):
        return 0
    if settings.exit_at_start >= 0:
        say(
            f"engine core initialization failed (ENGINE_SIM_EXIT_AT_START), exit code {settings.exit_at_start}"
        )
        return settings.exit_at_start
    server = Server(config, settings)
    loop.add_signal_handler(signal.SIGUSR1, _toggle_metrics, server)
    runner = web.AppRunner(
        server.app(), access_log=None, handler_cancellation=True, shutdown_timeout=LAST_WORDS_SECONDS
    )
    await runner.setup()
    await web.TCPSite(runner, config.host, config.port).start()
    say(
        f"ready on {config.host}:{config.port}: {config.kv_cache_tokens} tokens of KV cache, "
        f"{config.limits.max_sequences} sequences, {config.limits.max_batched_tokens} tokens a step, "
        f"speculation {config.speculation or 'off'}"
    )
    await stop.wait()
    server.draining = True
    say(
        f"SIGTERM: {server.engine.in_flight} requests in flight, waiting up to {config.shutdown_timeout:g} s for them"
    )
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(server.engine.idle(), config.shutdown_timeout)
    server.engine.stop()
    await runner.cleanup()
    say("stopped")
    return 0


def _toggle_metrics(server: Server) -> None:
    server.metrics_fail = not server.metrics_fail
    say(f"SIGUSR1: /metrics {'fails' if server.metrics_fail else 'answers'} from now on")


async def _stopped_within(stop: asyncio.Event, seconds: float | None) -> bool:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return False
    return True


def say(line: str) -> None:
    """Write a log line."""
    print(f"engine-sim: {line}", file=sys.stderr, flush=True)
