"""Fills the compile cache before anything serves: from the configuration alone, no weight is put into memory."""

import logging
import time
from collections import Counter

import jax.numpy as jnp

from tierwright_worker.cli.drafter import check_speculation
from tierwright_worker.cli.flags import WorkerSettings
from tierwright_worker.cli.precision import Precision, draft_precision_of, precision_of
from tierwright_worker.cli.start import shapes_of
from tierwright_worker.cli.stores import draft_shapes, draft_store, target_store
from tierwright_worker.engine.interface import Shapes
from tierwright_worker.engine.inventory import programs
from tierwright_worker.engine.programs import ProgramStore
from tierwright_worker.errors import SettingsError
from tierwright_worker.loading.model import hugging_face_folder
from tierwright_worker.models.config import ModelConfig, read_config

_log = logging.getLogger(__name__)


def compile_all(settings: WorkerSettings) -> None:
    """Compile what a server of the same settings would, and keep it; GGUF files are converted as well.

    Raises:
        WorkerError: the model cannot be read, the settings contradict it, or a cache volume cannot be written.
    """
    if settings.compile_cache is None:
        raise SettingsError("compile fills a compile cache; say where it is: --compile-cache")
    check_speculation(settings)
    page = settings.prompt_cache_page
    precision = precision_of(settings, page_tokens=page)
    config = read_config(
        hugging_face_folder(settings.model, cache=settings.weights_cache, dtype=precision.read)
    )
    shapes = shapes_of(settings, config)
    _fill("model", target_store(settings, config, shapes, precision), config, shapes, precision, page)
    if settings.speculative_model is None:
        return
    own = draft_precision_of(settings)
    draft = read_config(
        hugging_face_folder(settings.speculative_model, cache=settings.weights_cache, dtype=own.read)
    )
    smaller = draft_shapes(shapes)
    _fill("draft model", draft_store(settings, draft, smaller, own), draft, smaller, own, page)


def _fill(
    what: str, store: ProgramStore, config: ModelConfig, shapes: Shapes, precision: Precision, page: int
) -> None:
    began = time.perf_counter()
    wanted = programs(
        config,
        shapes,
        dtype=jnp.dtype(precision.read),
        kv_dtype=jnp.dtype(precision.cache),
        page_tokens=page,
        layout=precision.layout,
        devices=precision.devices,
    )
    origins: Counter[str] = Counter()
    for number, program in enumerate(wanted, 1):
        started = time.perf_counter()
        origin = store.fill(program)
        origins[origin] += 1
        if origin == "compiled":
            seconds = time.perf_counter() - started
            _log.info(
                "%s: %d of %d programs, %s compiled in %.1f s",
                what,
                number,
                len(wanted),
                program.name,
                seconds,
            )
    _log.info(
        "%s: all %d programs are there in %.1f s: %s",
        what,
        len(wanted),
        time.perf_counter() - began,
        dict(origins),
    )
