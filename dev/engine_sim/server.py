"""Serves vLLM's HTTP API from one simulated engine."""

import asyncio
import contextlib
import hmac
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from dev.engine_sim.config import VLLM_VERSION, EngineConfig
from dev.engine_sim.engine import AdmissionRejectedError, Call, Engine, EngineStoppedError
from dev.engine_sim.generation import Choice, choices_of
from dev.engine_sim.http_metrics import HttpMetrics
from dev.engine_sim.kv_cache import KvCache
from dev.engine_sim.metrics import EngineMetrics
from dev.engine_sim.protocol import (
    ApiError,
    GenerationRequest,
    bad_request,
    chat_prompt,
    parse_chat,
    parse_completion,
    parse_json,
)
from dev.engine_sim.responses import DONE, Reply, event
from dev.engine_sim.scheduler import Scheduler
from dev.engine_sim.settings import Settings
from dev.engine_sim.text import pieces_of, token_id

KEY_GUARDED = ("/v1", "/v2", "/inference")
UNCOUNTED = {"/metrics", "/health", "/load", "/ping", "/version"}
LARGEST_BODY = 64 * 1024**2

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """The routes of one engine and whether it is healthy, draining or dead."""

    def __init__(self, config: EngineConfig, settings: Settings) -> None:
        self.config = config
        self.draining = False
        self.metrics_fail = False
        """Answer /metrics with an error, as an engine does whose exporter broke while it serves on."""
        self._settings = settings
        self._metrics = EngineMetrics(config)
        self._http = HttpMetrics(self._metrics.registry)
        kv_cache = KvCache(config.total_blocks, config.block_size, config.prefix_caching)
        scheduler = Scheduler(config.limits, config.step_time, kv_cache, config.speculation)
        self.engine = Engine(scheduler, self._metrics, settings.time_scale, time.monotonic)
        self._started = time.monotonic()
        self._started_at = int(time.time())
        self._steps: asyncio.Task[None] | None = None

    def app(self) -> web.Application:
        """The aiohttp application; the engine's steps run as long as it does."""
        app = web.Application(
            middlewares=[self._count, self._errors, self._guard], client_max_size=LARGEST_BODY
        )
        app.cleanup_ctx.append(self._run_engine)
        app.on_response_prepare.append(self._mark)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._completions)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_get("/metrics", self._metrics_page)
        app.router.add_get("/version", self._version)
        app.router.add_get("/load", self._load)
        app.router.add_get("/health", self._health)
        app.router.add_get("/ping", self._health)
        app.router.add_post("/ping", self._health)
        return app

    @property
    def dead(self) -> bool:
        """Whether the engine core has died while its HTTP server lives on: by a setting, or by a defect of its own."""
        after = self._settings.unhealthy_after_seconds
        due = after >= 0 and time.monotonic() - self._started >= after
        return due or (self._steps is not None and self._steps.done())

    async def _run_engine(self, _: web.Application) -> AsyncIterator[None]:
        self._started = time.monotonic()
        self._steps = asyncio.create_task(self.engine.run())
        # Requests in flight must not wait for an engine that has ended, whatever ended it.
        self._steps.add_done_callback(lambda _: self.engine.stop())
        yield
        self._steps.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._steps

    async def _mark(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers["X-Engine-Simulated"] = "true"
        if self.config.request_id_headers:
            response.headers["X-Request-Id"] = request.headers.get("X-Request-Id", uuid.uuid4().hex)

    @web.middleware
    async def _count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        if resource is None or resource.canonical in UNCOUNTED:
            return await handler(request)
        start = time.monotonic()
        response = await handler(request)
        self._http.request(
            method=request.method,
            handler=resource.canonical,
            status=response.status,
            seconds=time.monotonic() - start,
            request_bytes=request.content_length or 0,
            response_bytes=response.content_length or 0,
        )
        return response

    @web.middleware
    async def _errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except ApiError as error:
            return web.json_response(error.body(), status=error.status)
        except web.HTTPRequestEntityTooLarge:
            too_large = bad_request(f"the request body is larger than {LARGEST_BODY} bytes")
            return web.json_response(too_large.body(), status=413)
        except (web.HTTPNotFound, web.HTTPMethodNotAllowed) as unrouted:
            return web.json_response({"detail": unrouted.reason}, status=unrouted.status)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self.config.api_keys and request.path.startswith(KEY_GUARDED) and request.method != "OPTIONS":
            scheme, _, key = request.headers.get("Authorization", "").partition(" ")
            matches = [hmac.compare_digest(key.encode(), known.encode()) for known in self.config.api_keys]
            if scheme.lower() != "bearer" or not any(matches):
                return web.json_response({"error": "Unauthorized"}, status=401)
        return await handler(request)

    async def _models(self, _: web.Request) -> web.Response:
        entries: list[dict[str, object]] = [
            {
                "id": name,
                "object": "model",
                "created": self._started_at,
                "owned_by": "vllm",
                "root": self.config.model,
                "parent": None,
                "max_model_len": self.config.max_model_len,
                "permission": [],
            }
            for name in self.config.served_names
        ]
        return web.json_response({"object": "list", "data": entries})

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=503 if self.draining or self.dead else 200)

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": VLLM_VERSION})

    async def _load(self, _: web.Request) -> web.Response:
        return web.json_response({"server_load": self.engine.in_flight if self.config.load_tracking else 0})

    async def _metrics_page(self, _: web.Request) -> web.Response:
        if self.metrics_fail:
            return web.Response(status=503, text="the metrics fail until the next SIGUSR1")
        self._metrics.refresh(self.engine.scheduler)
        page = generate_latest(self._metrics.registry)
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = parse_json(await request.read())
        self._model_name(body.get("model"))
        text = chat_prompt(body).text if "messages" in body else body.get("prompt")
        if not isinstance(text, str):
            raise bad_request("prompt must be a string", "prompt")
        pieces = pieces_of(text)
        return web.json_response(
            {
                "count": len(pieces),
                "max_model_len": self.config.max_model_len,
                "tokens": [token_id(piece) for piece in pieces],
                "token_strs": list(pieces) if body.get("return_token_strs") else None,
            }
        )

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, parse_chat(parse_json(await request.read())), chat=True)

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, parse_completion(parse_json(await request.read())), chat=False)

    def _model_name(self, asked: object) -> str:
        if asked is None:
            return self.config.served_names[0]
        if asked not in self.config.served_names:
            raise ApiError(404, "NotFoundError", f"The model `{asked}` does not exist.", "model")
        return str(asked)

    async def _generate(
        self, request: web.Request, asked: GenerationRequest, chat: bool
    ) -> web.StreamResponse:
        reply = Reply(
            request_id=f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}",
            created=int(time.time()),
            model=self._model_name(asked.model),
            chat=chat,
            asked=asked,
            prompt_tokens_details=self.config.prompt_tokens_details,
        )
        if self.draining:
            raise ApiError(503, "ServiceUnavailableError", "the server is shutting down")
        if self.dead:
            raise ApiError(500, "InternalServerError", "the engine core is dead")
        choices = choices_of(asked, reply.request_id, self.config, self._settings)
        try:
            call = self.engine.open([choice.job for choice in choices])
        except AdmissionRejectedError as error:
            raise ApiError(503, "ServiceUnavailableError", str(error)) from None
        with call:
            if asked.stream:
                return await self._stream(request, reply, choices, call)
            return await _whole(reply, choices, call)

    async def _stream(
        self, request: web.Request, reply: Reply, choices: tuple[Choice, ...], call: Call
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        by_id = {choice.job.request.request_id: choice for choice in choices}
        emitted = dict.fromkeys(by_id, 0)
        cached = 0
        try:
            async for progress in call.progress():
                choice = by_id[progress.request_id]
                start = emitted[progress.request_id]
                emitted[progress.request_id] += progress.new_tokens
                cached += progress.cached_tokens if start == 0 and choice.index % reply.asked.n == 0 else 0
                opening = reply.first_chunk(choice) if start == 0 else None
                text = "".join(choice.texts[start : emitted[progress.request_id]])
                chunk = reply.chunk(choice, text, finished=progress.record is not None)
                if reply.asked.continuous_usage:
                    chunk["usage"] = reply.usage((choice,), emitted[progress.request_id], cached)
                await response.write((event(opening) if opening else b"") + event(chunk))
        except EngineStoppedError as error:
            await response.write(event(ApiError(500, "InternalServerError", str(error)).body()))
            # A clean end without [DONE] looks like success to clients, so the connection is cut.
            if request.transport is not None:
                request.transport.close()
            return response
        if reply.asked.include_usage or self.config.force_include_usage:
            await response.write(
                event(reply.usage_chunk(reply.usage(choices, sum(emitted.values()), cached)))
            )
        await response.write(DONE)
        await response.write_eof()
        return response


async def _whole(reply: Reply, choices: tuple[Choice, ...], call: Call) -> web.Response:
    first_of_prompt = {
        choice.job.request.request_id for choice in choices if choice.index % reply.asked.n == 0
    }
    cached = 0
    try:
        async for progress in call.progress():
            if progress.record is not None and progress.request_id in first_of_prompt:
                cached += progress.record.cached_tokens
    except EngineStoppedError as error:
        raise ApiError(500, "InternalServerError", str(error)) from None
    return web.json_response(reply.whole(choices, cached))
