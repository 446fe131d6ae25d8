"""Routes requests of OpenAI's and Anthropic's APIs to one engine, and says how that engine is."""

import asyncio
import hmac
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

import tierwright_worker
from tierwright_worker.engine.service import Engine
from tierwright_worker.server import anthropic_requests, openai_requests
from tierwright_worker.server.anthropic_answers import AnthropicAnswers
from tierwright_worker.server.asked import Asked, Conversation, RawPrompt
from tierwright_worker.server.errors import ApiError, bad_request
from tierwright_worker.server.fields import Fields, parse_object
from tierwright_worker.server.generation import Generation, RejectedError, choices_of
from tierwright_worker.server.http_metrics import HttpMetrics
from tierwright_worker.server.load_report import load_report
from tierwright_worker.server.metrics import EngineMetrics
from tierwright_worker.server.openai_answers import OpenAiAnswers
from tierwright_worker.server.prompting import PromptLimit, ReadPrompt, context_limit, read_prompt
from tierwright_worker.server.replies import BEGAN, REQUEST_ID, AnthropicReply, OpenAiReply, Reply
from tierwright_worker.server.vocabulary import Vocabulary
from tierwright_worker.tokenizer.text import TextCodec

UNCOUNTED = frozenset({"/metrics", "/health", "/load", "/ping", "/version"})
OPEN_PATHS = UNCOUNTED
# On every answer of an engine whose verification bends; the value is its rule.
LOSSY = "X-Tierwright-Lossy"
# Longer bodies are read in a thread: the tokens of others must not wait for them.
SHORT_BODY = 1 << 16
# More tokens are not counted in one request; a tokenizer takes some 200 bytes for each.
MOST_COUNTED = 1_000_000
COUNTING = PromptLimit(MOST_COUNTED, f"at most {MOST_COUNTED} are counted in one request")
LOG = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")


@dataclass(frozen=True)
class ServerSettings:
    """`model_names`: what requests may ask for, the first being the one shown. `drafts`: most tokens drafted in a step.

    `histogram_buckets`: bounds by vLLM's name of the family, in place of vLLM's own.
    `api_keys`: any of them opens /v1 and the tokenizer; () = open. `source`: where the weights came from, for /v1/models.
    """

    model_names: tuple[str, ...]
    source: str = ""
    api_keys: tuple[str, ...] = ()
    drafts: int = 0
    histogram_buckets: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    largest_body: int = 32 * 1024**2


class Server:
    """The routes, and whether the worker is starting, ready, draining or dead."""

    def __init__(self, settings: ServerSettings, codec: TextCodec) -> None:
        self.settings = settings
        self.draining = False
        self._codec = codec
        self._vocabulary = Vocabulary(codec)
        self._table = self._vocabulary.table
        self._engine: Engine | None = None
        self._metrics: EngineMetrics | None = None
        self._running: set[Generation] = set()
        self.idle = asyncio.Event()
        self.idle.set()
        self._created = int(time.time())
        self._registry = CollectorRegistry()
        GCCollector(self._registry)
        PlatformCollector(self._registry)
        ProcessCollector(registry=self._registry)
        self._http = HttpMetrics(self._registry)

    def attach(self, engine: Engine) -> None:
        """Serve with an engine that is warm; before this every request for tokens is answered with 503."""
        self._metrics = EngineMetrics(
            self._registry,
            self.settings.model_names[0],
            engine.facts,
            self.settings.drafts,
            self.settings.histogram_buckets,
        )
        engine.observe(self._metrics.iteration)
        self._engine = engine

    @property
    def in_flight(self) -> int:
        """Requests that wait for tokens."""
        return len(self._running)

    @property
    def failure(self) -> str | None:
        """Why the engine died, None while it lives."""
        return None if self._engine is None else self._engine.state().failure

    def abort(self, reason: str) -> None:
        """End what is still running: each stream gets an error event, each other request a 503."""
        for generation in tuple(self._running):
            generation.stop(reason)

    def app(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(
            middlewares=[self._count, self._errors, self._guard], client_max_size=self.settings.largest_body
        )
        app.on_response_prepare.append(self._mark)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/v1/models/{name:.+}", self._model)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._completions)
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_post("/v1/messages/count_tokens", self._count_tokens)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_post("/detokenize", self._detokenize)
        app.router.add_get("/metrics", self._metrics_page)
        app.router.add_get("/version", self._version)
        app.router.add_get("/load", self._load)
        app.router.add_get("/health", self._health)
        app.router.add_get("/ping", self._health)
        app.router.add_post("/ping", self._health)
        return app

    @web.middleware
    async def _count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        if resource is None or resource.canonical in UNCOUNTED:
            return await handler(request)
        start = time.monotonic()
        response = await handler(request)
        self._http.answered(
            method=request.method,
            route=resource.canonical,
            status=response.status,
            seconds=time.monotonic() - start,
            request_bytes=request.content_length or 0,
            response_bytes=response.content_length or 0,
        )
        return response

    @web.middleware
    async def _errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        _request_id(request)
        try:
            return await handler(request)
        except ApiError as error:
            return _error_response(request, error)
        except web.HTTPRequestEntityTooLarge:
            most = self.settings.largest_body
            return _error_response(request, ApiError(413, f"the request body is larger than {most} bytes"))
        except web.RequestPayloadError as error:
            words = " ".join(str(error).split())
            return _error_response(request, bad_request(f"the request body cannot be read: {words}"))
        except web.HTTPNotFound:
            return _error_response(request, ApiError(404, f"there is no {request.method} {request.path}"))
        except web.HTTPMethodNotAllowed as error:
            allowed = {"Allow": ", ".join(sorted(error.allowed_methods))}
            return web.json_response({"detail": error.reason}, status=405, headers=allowed)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception:
            # A bug of ours ends one request, not the worker; a stream that has begun is cut by what follows.
            LOG.exception("%s %s failed", request.method, request.path)
            if request.get(BEGAN):
                raise
            return _error_response(
                request, ApiError(500, "the server failed on this request; its log says more")
            )

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self.settings.api_keys and request.path not in OPEN_PATHS:
            scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
            given = bearer if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
            # Every key is compared, so that the time tells nothing.
            # Bytes that are no text come as surrogates.
            word = given.encode("utf-8", "surrogateescape")
            known = [hmac.compare_digest(word, key.encode()) for key in self.settings.api_keys]
            if not any(known):
                raise ApiError(401, "a valid API key is needed, as a bearer token or in x-api-key")
        return await handler(request)

    async def _models(self, _: web.Request) -> web.Response:
        entries = [self._model_entry(name) for name in self.settings.model_names]
        names = {"first_id": entries[0]["id"], "last_id": entries[-1]["id"], "has_more": False}
        return _json({"object": "list", "data": entries, **names})

    async def _model(self, request: web.Request) -> web.Response:
        return _json(self._model_entry(self._model_name(request.match_info["name"])))

    def _model_entry(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "type": "model",
            "display_name": name,
            "created": self._created,
            "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._created)),
            "owned_by": "tierwright",
            "root": self.settings.source,
            "parent": None,
            "max_model_len": self._engine.facts.max_length if self._engine else None,
            "permission": [],
        }

    async def _health(self, _: web.Request) -> web.Response:
        ready = self._engine is not None and not self.draining and self.failure is None
        return web.Response(status=200 if ready else 503)

    async def _version(self, _: web.Request) -> web.Response:
        return _json({"version": tierwright_worker.__version__})

    async def _load(self, _: web.Request) -> web.Response:
        load: dict[str, Any] = {"server_load": self.in_flight, "draining": self.draining}
        if self._engine is not None:
            load |= load_report(self._engine.facts, self._engine.state())
        return _json(load)

    async def _metrics_page(self, _: web.Request) -> web.Response:
        if self._metrics is not None and self._engine is not None:
            self._metrics.refresh(self._engine.state())
        return web.Response(
            body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def _tokenize(self, request: web.Request) -> web.Response:
        fields, prompt = await _parsed(request, _to_tokenize)
        self._model_name(fields.get("model"))
        tokens = (await self._read((prompt,), COUNTING))[0].tokens
        names = [self._table[token].decode("utf-8", "replace") for token in tokens]
        length = self._engine.facts.max_length if self._engine else None
        found = {"count": len(tokens), "max_model_len": length, "tokens": tokens}
        return _json(found | {"token_strs": names if fields.flag("return_token_strs") else None})

    async def _detokenize(self, request: web.Request) -> web.Response:
        fields, text = await _parsed(request, self._text_of_tokens)
        self._model_name(fields.get("model"))
        return _json({"prompt": text})

    def _text_of_tokens(self, body: Mapping[str, Any]) -> tuple[Fields, str]:
        fields = Fields(body)
        tokens = fields.integers("tokens")
        unknown = next((token for token in tokens if token >= len(self._table)), None)
        if unknown is not None:
            raise bad_request(f"tokens: {unknown} is not one of the model's {len(self._table)} ids", "tokens")
        return fields, b"".join(self._table[token] for token in tokens).decode("utf-8", "replace")

    async def _count_tokens(self, request: web.Request) -> web.Response:
        fields, conversation = await _parsed(
            request, lambda body: (Fields(body), anthropic_requests.conversation(body))
        )
        self._model_name(fields.get("model"))
        (prompt,) = await self._read((conversation,), COUNTING)
        return _json({"input_tokens": len(prompt.tokens)})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        asked = await _parsed(request, openai_requests.chat_request)
        return await self._generate(request, asked, self._openai_reply(asked, chat=True))

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        asked = await _parsed(request, openai_requests.completion_request)
        return await self._generate(request, asked, self._openai_reply(asked, chat=False))

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        asked = await _parsed(request, anthropic_requests.messages_request)
        answers = AnthropicAnswers(
            f"msg_{uuid.uuid4().hex}", self._model_name(asked.model), self._lossy is not None
        )
        return await self._generate(request, asked, AnthropicReply(answers))

    def _openai_reply(self, asked: Asked, chat: bool) -> Reply:
        answers = OpenAiAnswers(
            request_id=f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}",
            created=int(time.time()),
            model=self._model_name(asked.model),
            fingerprint=f"tierwright-worker-{tierwright_worker.__version__}",
            chat=chat,
            asked=asked,
            token_text=self._table,
            lossy=self._lossy is not None,
        )
        return OpenAiReply(answers)

    def _model_name(self, asked: object) -> str:
        if asked is None:
            return self.settings.model_names[0]
        if asked not in self.settings.model_names:
            raise ApiError(404, f"the model {str(asked)[:200]!r} does not exist", "model")
        return str(asked)

    async def _read(
        self, prompts: tuple[Conversation | RawPrompt, ...], limit: PromptLimit
    ) -> list[ReadPrompt]:
        """Rendering and tokenizing may take long for long prompts, so they leave the event loop alone."""
        return await asyncio.to_thread(
            lambda: [read_prompt(prompt, self._codec, limit) for prompt in prompts]
        )

    async def _generate(self, request: web.Request, asked: Asked, reply: Reply) -> web.StreamResponse:
        engine, metrics = self._engine, self._metrics
        if engine is None or metrics is None:
            raise ApiError(503, "the model is still being loaded", retry_after=5)
        self._check_alive()
        prompts = await self._read(self._vocabulary.prompts(asked), context_limit(engine.facts.max_length))
        grammar = None
        if asked.schema is not None or asked.forced:
            grammar = await asyncio.to_thread(self._vocabulary.grammar, asked, engine.facts.end_tokens)
        # Reading took its time: what was true before may be so no more.
        self._check_alive()
        choices = choices_of(asked, prompts, engine, self._vocabulary, uuid.uuid4().hex, grammar)
        generation = Generation(engine, choices, metrics)
        try:
            with generation:
                self._running.add(generation)
                self.idle.clear()
                if asked.stream:
                    return await reply.stream(request, generation)
                return _json(await reply.whole(generation))
        except RejectedError as error:
            metrics.rejection(error.reason)
            raise
        finally:
            self._running.discard(generation)
            if not self._running:
                self.idle.set()

    @property
    def _lossy(self) -> str | None:
        """The rule by which drafts may pass that are not the model's own choice; None = every answer is exact."""
        return None if self._engine is None else self._engine.facts.speculation.lossy

    async def _mark(self, request: web.Request, response: web.StreamResponse) -> None:
        """Both names of the id: SDKs of the two APIs look for one each. And a word where answers are not exact."""
        response.headers["X-Request-Id"] = response.headers["Request-Id"] = _request_id(request)
        if self._lossy is not None:
            response.headers[LOSSY] = self._lossy

    def _check_alive(self) -> None:
        if self.draining:
            raise ApiError(503, "the server is shutting down", retry_after=1)
        failure = self.failure
        if failure is not None:
            raise ApiError(500, f"the engine is dead: {failure}")


async def _parsed(request: web.Request, read: Callable[[dict[str, Any]], T]) -> T:
    """A request's body as `read` understands it."""
    body = await request.read()
    if len(body) <= SHORT_BODY:
        return read(parse_object(body))
    return await asyncio.to_thread(lambda: read(parse_object(body)))


def _to_tokenize(body: Mapping[str, Any]) -> tuple[Fields, Conversation | RawPrompt]:
    fields = Fields(body)
    if "messages" in body:
        return fields, openai_requests.conversation(body)
    special = fields.flag("add_special_tokens", True)
    return fields, RawPrompt(fields.text("prompt"), add_special_tokens=special)


def _json(document: Mapping[str, Any]) -> web.Response:
    return web.Response(body=orjson.dumps(document), content_type="application/json")


def _error_response(request: web.Request, error: ApiError) -> web.Response:
    anthropic = request.path.startswith("/v1/messages")
    body = error.anthropic_body(_request_id(request)) if anthropic else error.openai_body()
    response = _json(body)
    response.set_status(error.anthropic_status if anthropic else error.status)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def _request_id(request: web.Request) -> str:
    given = request.headers.get("X-Request-Id", "")
    if REQUEST_ID not in request:
        request[REQUEST_ID] = (
            given if given.isascii() and 0 < len(given) <= 200 else f"req_{uuid.uuid4().hex}"
        )
    return request[REQUEST_ID]
