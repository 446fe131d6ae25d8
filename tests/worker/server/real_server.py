"""A real engine of random weights behind a real server, in a thread of its own: for tests that treat it badly."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.worker.support import Bench
from tests.worker.tiny_folder import TEMPLATE, tiny_tokenizer
from tierwright_worker.engine.interface import QueueLimits
from tierwright_worker.engine.loop import Engine
from tierwright_worker.engine.runner import EngineRunner
from tierwright_worker.engine.service import EngineFacts
from tierwright_worker.server.app import Server, ServerSettings
from tierwright_worker.server.lifecycle import Listener, ListenSettings
from tierwright_worker.tokenizer.chat_template import ChatTemplate
from tierwright_worker.tokenizer.text import TextCodec

CODEC = TextCodec(tiny_tokenizer(), ChatTemplate(TEMPLATE, {}), {})
END: int = CODEC.tokenizer.token_to_id("<|im_end|>") or 0
QUEUE = 8


@dataclass
class RealServer:
    """A server that runs, and what is behind it."""

    port: int
    batch: Engine
    runner: EngineRunner
    server: Server

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def until_idle(self, seconds: float = 20) -> None:
        """Return once nothing is held any more."""
        self.until(lambda: not self.batch.busy and self.server.in_flight == 0, seconds)

    def until(self, holds: Callable[[], bool], seconds: float = 20) -> None:
        """Return once it holds; AssertionError when it does not come to."""
        end = time.monotonic() + seconds
        while not holds():
            assert self.runner.state().failure is None
            assert time.monotonic() < end, "it did not come to hold in time"
            time.sleep(0.005)


class Serving:
    """Serves a bench until the block ends."""

    def __init__(self, bench: Bench, drafts: int = 4) -> None:
        self._batch = bench.engine(draft_tokens=drafts, end_tokens=[END])
        facts = EngineFacts(self._batch.context, self._batch.shapes.slots, frozenset({END}))
        self._runner = EngineRunner(self._batch, facts, QueueLimits(QUEUE))
        self._server = Server(ServerSettings(("tiny",), drafts=drafts), CODEC)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="server", daemon=True)

    def __enter__(self) -> RealServer:
        self._thread.start()
        self._runner.start()

        async def begin() -> int:
            self._listener = Listener(self._server, ListenSettings("127.0.0.1", 0))
            self._server.attach(self._runner)
            return await self._listener.start()

        port = asyncio.run_coroutine_threadsafe(begin(), self._loop).result(20)
        return RealServer(port, self._batch, self._runner, self._server)

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._listener.close(), self._loop).result(20)
        self._runner.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()
