"""Serves /livez, /readyz and /metrics on one port."""

from collections.abc import Callable

from aiohttp import web

from tierwright.telemetry.metrics import Metrics

Check = Callable[[], list[str]]
"""Returns what is wrong; empty when nothing is."""


def application(metrics: Metrics, *, alive: Check, ready: Check) -> web.Application:
    """The pages: a check answers 200 with "ok", or 503 with one line per problem."""

    async def livez(_: web.Request) -> web.Response:
        return _answer(alive())

    async def readyz(_: web.Request) -> web.Response:
        return _answer(ready())

    async def page(_: web.Request) -> web.Response:
        return web.Response(
            body=metrics.render(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    app = web.Application()
    app.add_routes([web.get("/livez", livez), web.get("/readyz", readyz), web.get("/metrics", page)])
    return app


async def serve(app: web.Application, host: str, port: int) -> web.AppRunner:
    """Listen; the caller ends it with ``cleanup()``. Raises OSError when the port is taken."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, port).start()
    except OSError:
        await runner.cleanup()
        raise
    return runner


def _answer(problems: list[str]) -> web.Response:
    return web.Response(text="\n".join(problems or ["ok"]) + "\n", status=503 if problems else 200)
