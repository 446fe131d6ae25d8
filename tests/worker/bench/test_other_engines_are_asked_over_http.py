"""The client counts what a server sends, prompts are new each time, servers are ended with all that they started."""

import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter

from bench.worker.client import ClientError, read, stream, together
from bench.worker.fresh_prompts import FreshPrompts
from bench.worker.gguf_f32 import write_f32
from bench.worker.servers import ServerError, ServerSpec, running
from tests.worker.server.conftest import Start, start
from tests.worker.server.tiny_engine import TinyEngine
from tests.worker.server.tiny_model import tokens_of
from tierwright_worker.server.app import ServerSettings

__all__ = ["start"]
SETTINGS = ServerSettings(model_names=("bench",))
SERVER = """
import http.server, subprocess, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[2], "w").write(str(child.pid))
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


async def test_a_stream_is_timed_and_counted(start: Start) -> None:
    engine = TinyEngine(lambda _: tokens_of("a" * 100), step_seconds=0.005)
    run = await start(engine, SETTINGS)
    port = run.http._base_url.port  # type: ignore[union-attr]
    assert port is not None
    answer = await stream(port, tokens_of("hello"), 20)
    assert (answer.tokens, answer.text) == (20, "a" * 20)
    assert answer.began < answer.first < answer.last
    assert 0 < answer.decode_rate <= 1 / 0.005
    assert await together(port, [tokens_of("one"), tokens_of("two")], 10) > 0
    assert await read(port, tokens_of("a long prompt")) > 0


async def test_a_refusal_is_said_in_the_servers_words(start: Start) -> None:
    run = await start(TinyEngine(lambda _: tokens_of("a")), ServerSettings(model_names=("other",)))
    port = run.http._base_url.port  # type: ignore[union-attr]
    assert port is not None
    with pytest.raises(ClientError, match="404"):
        await stream(port, tokens_of("hello"), 4)
    with pytest.raises(ClientError, match="404"):
        await read(port, tokens_of("hello"))


def test_no_two_prompts_begin_alike() -> None:
    prompts = FreshPrompts(lambda text: list(text.encode()))
    short = [tuple(prompts.short()) for _ in range(60)]
    assert len({prompt[:14] for prompt in short}) == 60
    long = [tuple(prompts.long(1500)) for _ in range(20)]
    assert all(len(prompt) == 1500 for prompt in long)
    assert len({prompt[:14] for prompt in long}) == 20
    with pytest.raises(ValueError, match="fewer than"):
        prompts.long(10_000_000)


def test_a_server_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    script, child = tmp_path / "server.py", tmp_path / "child"
    script.write_text(SERVER, encoding="utf-8")
    spec = ServerSpec("tiny", (sys.executable, str(script), "{port}", str(child)), {}, patience=60)
    with running(spec, tmp_path) as server:
        assert server.ready > 0
        pid = int(child.read_text(encoding="ascii"))
        os.kill(pid, 0)
    deadline = time.monotonic() + 30
    while not _gone(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_server_that_ends_or_never_answers_is_named_with_its_log(tmp_path: Path) -> None:
    dies = ServerSpec("dies", (sys.executable, "-c", "raise SystemExit(3)"), {}, patience=60)
    with pytest.raises(ServerError, match=r"status 3; see .*dies\.log"), running(dies, tmp_path):
        pass
    silent = ServerSpec("silent", (sys.executable, "-c", "import time; time.sleep(60)"), {}, patience=0.2)
    with pytest.raises(ServerError, match="not ready after"), running(silent, tmp_path):
        pass


def test_weights_are_written_anew_in_f32(tmp_path: Path) -> None:
    source, target = tmp_path / "small.gguf", tmp_path / "f32.gguf"
    random = np.random.default_rng(1)
    norm = random.standard_normal(32).astype(np.float32)
    matrix = random.standard_normal((4, 32)).astype(np.float16)
    writer = GGUFWriter(source, "llama")
    writer.add_uint32("llama.block_count", 1)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    writer.add_file_type(1)
    writer.add_tensor("norm", norm)
    writer.add_tensor("matrix", matrix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    write_f32(source, target)
    written = GGUFReader(target)
    tensors = {tensor.name: np.array(tensor.data) for tensor in written.tensors}
    assert tensors["matrix"].dtype == tensors["norm"].dtype == np.float32
    assert np.array_equal(tensors["matrix"].reshape(4, 32), matrix.astype(np.float32))
    assert np.array_equal(tensors["norm"], norm)
    assert written.fields["general.file_type"].contents() == 0
    assert written.fields["tokenizer.ggml.tokens"].contents() == ["a", "b"]
    assert not target.with_suffix(".part").exists()


def _gone(pid: int) -> bool:
    """Whether a process has ended; a dead one that nobody has waited for yet counts as gone."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"
