"""Measures this worker on the user's model and machine: three gears side by side, single steps, and a process's start."""

import argparse
import json
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from tierwright_worker import native
from tierwright_worker.bench.asking import BenchError, Request, StoppableEngine
from tierwright_worker.bench.figures import GearRuns, agreement, set_rates
from tierwright_worker.bench.gears import Gears, run_gears
from tierwright_worker.bench.process import serve_once
from tierwright_worker.bench.prompts import Kind, Prompt, read_prompts
from tierwright_worker.bench.replay import TokenAgreement, replay, replay_shapes
from tierwright_worker.bench.report import (
    Gathered,
    ProcessRuns,
    StepSeconds,
    agreement_lines,
    as_json,
    figures_of,
    sets_table,
    table,
)
from tierwright_worker.cli.flags import WorkerSettings, model_flags_of, settings_of
from tierwright_worker.cli.precision import precision_of
from tierwright_worker.cli.start import WarmEngine, read_model, running_engine, warm_engine
from tierwright_worker.cli.stores import target_store
from tierwright_worker.engine.executor import Executor, timed
from tierwright_worker.errors import SettingsError
from tierwright_worker.loading.model import Model
from tierwright_worker.models.slot_cache import cache_bytes
from tierwright_worker.tokenizer.text import TextCodec

_CONTEXT = 1024  # holds the longest prompt of the set and its answer
_STEP_LENGTH = 512
_STEP_TIMES = 25
_REPLAYED = 12  # answers; of each kind some
_REPLAY_ROWS, _REPLAY_BUCKET = 16, 256
_ITEM_BYTES = {"float32": 4, "bfloat16": 2, "int8": 1.125}  # int8: a scale of 4 bytes for 32 weights
_log = logging.getLogger(__name__)


def bench(options: argparse.Namespace) -> None:
    """Measure what is asked for, print the tables, write the JSON.

    Raises:
        WorkerError: the model cannot be served.
        SettingsError: the benchmark itself cannot go on.
    """
    logging.getLogger().setLevel(logging.WARNING)
    # Told to end, it ends the worker that it may have started as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with _compile_cache(options) as cache:
        settings = replace(settings_of(options), compile_cache=cache, served_model_names=("bench",))
        try:
            gathered = _measure(options, settings)
        except BenchError as error:
            raise SettingsError(f"the benchmark stopped: {error}") from error
    sets = sets_table(gathered.sets) if gathered.sets else []
    for lines in (sets, agreement_lines(gathered), table(figures_of(gathered))):
        if lines:
            print("\n".join([*lines, ""]))
    _write(options, settings, gathered, options.passes)


def _write(options: argparse.Namespace, settings: WorkerSettings, gathered: Gathered, passes: int) -> None:
    """The JSON, where it is asked for; the old file is there until the new one is complete."""
    if options.json is None:
        return
    facts = {
        "model": settings.model.name,
        "dtype": settings.dtype,
        "standard_slots": settings.max_num_seqs,
        "speculative_tokens": settings.speculative_tokens,
        "passes": passes,
        "every": options.every,
        "kernels": native.instructions() if settings.kernels != "off" else "none",
    }
    work = options.json.with_suffix(".part")
    work.write_text(json.dumps(as_json(gathered, facts), indent=1) + "\n", encoding="utf-8")
    work.replace(options.json)


@contextmanager
def _compile_cache(options: argparse.Namespace) -> Iterator[Path]:
    """The cache of compiled programs that was named, or one that is gone afterwards."""
    if options.compile_cache is not None:
        yield options.compile_cache
        return
    with tempfile.TemporaryDirectory(prefix="tierwright-bench-") as folder:
        yield Path(folder)


def _measure(options: argparse.Namespace, given: WorkerSettings) -> Gathered:
    model = read_model(given)
    context = given.max_model_len or min(_CONTEXT, model.config.max_position)
    given = replace(given, max_model_len=context)
    fast = replace(given, max_num_seqs=1)
    plain = _without_speculation(fast)
    gathered = Gathered()
    if {"gears", "steps"} & set(options.only):
        _say(f"warming the fast gear ({fast.speculative_tokens} drafted tokens) and the plain one")
        warm_fast, warm_plain = warm_engine(fast, model), warm_engine(plain, model)
        if "steps" in options.only:
            gathered = replace(gathered, steps=_steps(warm_fast.executor, warm_plain.executor))
        if "gears" in options.only:
            standard = _without_speculation(given)
            _say(f"warming the standard gear ({standard.max_num_seqs} slots)")
            warm_standard = warm_engine(standard, model)
            gears = Gears(
                fast=_starter(fast, model, warm_fast),
                plain=_starter(plain, model, warm_plain),
                standard=_starter(standard, model, warm_standard),
                standard_slots=standard.max_num_seqs,
            )
            gathered = _gears(gathered, gears, standard, model, options)
    if "process" in options.only:
        gathered = replace(gathered, process=_process(options, fast, model, gathered.steps is None))
    return gathered


def _without_speculation(settings: WorkerSettings) -> WorkerSettings:
    return replace(
        settings,
        speculative_tokens=0,
        speculation_method="ngram",
        speculative_model=None,
        layered_entropy=None,
    )


def _gears(
    before: Gathered, gears: Gears, settings: WorkerSettings, model: Model, options: argparse.Namespace
) -> Gathered:
    prompts, context = read_prompts(), settings.max_model_len or 0
    kept = [*(prompt for prompt in prompts if prompt.kind is not Kind.LOAD)][:: options.every]
    requests = [_request(prompt, model.text, context) for prompt in kept]
    load = [_request(prompt, model.text, context) for prompt in prompts if prompt.kind is Kind.LOAD]

    def gathered(runs: GearRuns) -> Gathered:
        return replace(
            before,
            sets=set_rates(runs, kept),
            plain=agreement(runs.plain, runs.fast),
            loaded=agreement(runs.plain, runs.loaded),
        )

    def keep(runs: GearRuns) -> None:
        _write(options, settings, gathered(runs), len(runs.plain[requests[0].id]))

    runs = run_gears(gears, requests, load, passes=options.passes, say=_say, keep=keep)
    return replace(gathered(runs), cache=_other_cache(settings, model, requests, runs))


def _other_cache(
    settings: WorkerSettings, model: Model, requests: Sequence[Request], runs: GearRuns
) -> TokenAgreement | None:
    """Some of the plain answers with int8 keys and values, or with plain ones where int8 is what is measured."""
    other = "auto" if settings.kv_cache_dtype == "int8" else "int8"
    page = settings.prompt_cache_page
    precision = precision_of(replace(settings, kv_cache_dtype=other), page_tokens=page)
    if precision.devices > 1:
        return None
    some = requests[:: max(1, len(requests) // _REPLAYED)]
    texts = [(request.prompt, runs.plain[request.id][0].tokens) for request in some]
    shapes = replay_shapes(texts, rows=_REPLAY_ROWS, bucket=_REPLAY_BUCKET)
    _say(f"replaying {len(texts)} answers with {precision.cache} keys and values")
    executor = Executor(
        model.config, model.parameters, shapes, kv_dtype=precision.cache, layout=precision.layout
    )
    executor.build(target_store(settings, model.config, shapes, precision))
    return replay(executor, texts, precision.cache)


def _request(prompt: Prompt, codec: TextCodec, context: int) -> Request:
    """A chat turn where the model has a template, else the bare text.

    Raises:
        BenchError: it does not fit into the context.
    """
    if codec.chat_template is None:
        tokens = codec.encode(f"{prompt.text}\n\n{prompt.opening}", add_special_tokens=True)
    else:
        messages = [{"role": "user", "content": prompt.text}]
        text = codec.chat_template.render(messages, tools=None, add_generation_prompt=True, variables={})
        tokens = codec.encode(text + prompt.opening, add_special_tokens=False)
    if len(tokens) + prompt.max_tokens > context:
        raise BenchError(
            f"prompt {prompt.id} has {len(tokens)} tokens; with its answer that is more than the context of {context}"
        )
    closing = codec.encode(prompt.closing, add_special_tokens=False) if prompt.closing else []
    # Where a fence is several tokens, the answer goes on to its end token.
    stop = frozenset(closing) if len(closing) == 1 else frozenset()
    return Request(prompt.id, tuple(tokens), prompt.max_tokens, stop)


def _starter(settings: WorkerSettings, model: Model, warm: WarmEngine) -> Callable[[], StoppableEngine]:
    def start() -> StoppableEngine:
        warm.executor.clear()
        return running_engine(settings, model, warm)

    return start


def _steps(fast: Executor, plain: Executor) -> StepSeconds:
    """The widest step of the fast gear and a step of one row of the plain one, in turn."""
    lengths = fast.shapes.length_buckets
    length = next((bucket for bucket in lengths if bucket >= _STEP_LENGTH), lengths[-1])
    wide, narrow = fast.shapes.step_rows[-1], plain.shapes.step_rows[0]
    _say(f"timing steps of {wide} rows and of {narrow}, at a length of {length}")
    seconds: dict[int, list[float]] = {wide: [], narrow: []}
    for executor in (fast, plain):
        executor.set_length(length)
    for _ in range(_STEP_TIMES):
        for executor, rows in ((fast, wide), (plain, narrow)):
            tokens = np.zeros((1, rows), np.int32)
            positions = np.full(1, length // 2, np.int32)
            seconds[rows].append(timed(partial(executor.step, tokens, positions)))
    return StepSeconds(wide, length, tuple(seconds[wide]), tuple(seconds[narrow]))


def _process(options: argparse.Namespace, settings: WorkerSettings, model: Model, cold: bool) -> ProcessRuns:
    """The fast gear as `serve` runs it; one start more where nothing has filled the compile cache so far."""
    changed = {
        "max_num_seqs": 1,
        "max_model_len": settings.max_model_len,
        "compile_cache": settings.compile_cache,
    }
    flags = [*model_flags_of(options, changed), "--served-model-name", "bench"]
    runs, context = [], settings.max_model_len or 0
    with tempfile.TemporaryDirectory(prefix="tierwright-bench-") as folder:
        for number in range(options.starts + cold):
            _say(f"starting a worker: {number + 1}/{options.starts + cold}")
            runs.append(serve_once(flags, context=context, log=Path(folder) / "serve.log"))
    item = _ITEM_BYTES[settings.dtype]
    precision = precision_of(settings, page_tokens=settings.prompt_cache_page)
    return ProcessRuns(
        runs=tuple(runs[cold:]),
        cache_bytes=cache_bytes(model.config, 1, context, precision.cache),
        page_bytes=cache_bytes(model.config, 1, settings.prompt_cache_page, precision.cache),
        weight_bytes=round(model.config.parameters * item),
    )


def _say(text: str) -> None:
    load, _, _ = os.getloadavg()
    print(f"[load {load:.1f}] {text}", file=sys.stderr, flush=True)
