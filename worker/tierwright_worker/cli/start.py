"""Starts an engine from settings: opens the model, warms its programs, puts the prompt cache and the thread around it."""

import logging
import sys
from dataclasses import dataclass, replace

import jax

from tierwright_worker import native
from tierwright_worker.cli.drafter import check_speculation, warm_drafter
from tierwright_worker.cli.flags import WorkerSettings
from tierwright_worker.cli.pages import cached_prompts
from tierwright_worker.cli.precision import precision_of
from tierwright_worker.cli.stores import target_store
from tierwright_worker.engine.agreement import shapes_agreement
from tierwright_worker.engine.draft_model import DraftModel
from tierwright_worker.engine.executor import Executor, WarmUp
from tierwright_worker.engine.interface import QueueLimits, Shapes, SpeculationLimits
from tierwright_worker.engine.loop import Engine, EngineSettings
from tierwright_worker.engine.policies.acceptance import LayeredRule
from tierwright_worker.engine.runner import EngineRunner
from tierwright_worker.engine.service import EngineFacts, SpeculationFacts
from tierwright_worker.engine.shapes import plan_shapes
from tierwright_worker.engine.warm_up import warm_up
from tierwright_worker.errors import OutOfMemoryError, SettingsError
from tierwright_worker.loading.memory import give_back
from tierwright_worker.loading.model import Model, open_model
from tierwright_worker.models.config import ModelConfig

_log = logging.getLogger(__name__)
# The kernels read a slot up to its own position whatever the bucket, so fewer buckets cost nothing; each program that is
# not there saves about two megabytes, and time at every start.
_KERNEL_GROWTH = 4
# A prompt and an answer of so many tokens, and the widest step, fit into the shortest context.
_COMPARED = 48
_TEXTS = (
    "A recipe for bread. Mix the flour with water, salt and yeast, and",
    "def area(width: float, height: float) -> float:\n    return width * height\n\n\ndef volume(",
)


@dataclass(frozen=True, slots=True)
class WarmEngine:
    """An executor that is ready, what its warm-up found, and the model that drafts for it, if one does."""

    executor: Executor
    warmed: WarmUp
    drafter: DraftModel | None = None


def read_model(settings: WorkerSettings) -> Model:
    """The model, its weights put on the device one by one.

    Raises:
        WorkerError: it cannot be read, or does not fit into the device's memory.
    """
    precision = precision_of(settings, page_tokens=settings.prompt_cache_page)
    try:
        model = open_model(
            settings.model,
            cache=settings.weights_cache,
            dtype=precision.read,
            layout=precision.layout,
            # Over several devices no single one may have to hold the whole model.
            place=jax.device_put if precision.devices == 1 else lambda array: array,
        )
    except jax.errors.JaxRuntimeError as error:
        raise OutOfMemoryError(
            f"the weights of {settings.model} do not fit into the device's memory: {error}"
        ) from error
    give_back()
    return model


def shapes_of(settings: WorkerSettings, config: ModelConfig) -> Shapes:
    """The shapes that the settings ask of a model.

    Raises:
        SettingsError: a longer context than the model was trained for, buckets or pages that do not fit.
    """
    context = settings.max_model_len or config.max_position
    if context > config.max_position:
        raise SettingsError(
            f"--max-model-len {context} is more than the {config.max_position} tokens that the model was trained for"
        )
    kernels = precision_of(settings, page_tokens=settings.prompt_cache_page).layout.kernels
    shapes = plan_shapes(
        slots=settings.max_num_seqs,
        max_context=context,
        draft_tokens=settings.speculative_tokens,
        length_buckets=settings.length_buckets,
        prefill_buckets=settings.prefill_buckets,
        growth=_KERNEL_GROWTH if kernels else 2,
    )
    page, shortest = settings.prompt_cache_page, shapes.length_buckets[0]
    if page > shortest:
        raise SettingsError(
            f"--prompt-cache-page {page} is longer than the shortest length bucket of {shortest} tokens; "
            "use a smaller page, or 0 for no prompt cache"
        )
    return shapes


def warm_engine(settings: WorkerSettings, model: Model) -> WarmEngine:
    """Put the model on the device and make every program ready: the first half of `serve`."""
    check_speculation(settings)
    shapes = shapes_of(settings, model.config)
    # First, for it is the one that may not fit the other.
    drafter = warm_drafter(settings, model, shapes)
    page = settings.prompt_cache_page
    precision = precision_of(settings, page_tokens=page)
    executor = Executor(
        model.config,
        model.parameters,
        shapes,
        kv_dtype=precision.cache,
        page_tokens=page,
        layout=precision.layout,
        devices=precision.devices,
    )
    store = target_store(settings, model.config, shapes, precision)
    warmed = warm_up(executor, store, require_exact=precision.exact)
    _log.info(
        "warm in %.1f s: programs %s; step rows %s; every step shape rounds alike: %s",
        warmed.seconds,
        dict(warmed.origins),
        warmed.step_rows,
        "yes" if warmed.exact else "no",
    )
    if not warmed.exact and len(warmed.step_rows) > 1:
        warmed = replace(warmed, agreement=_agreement(executor, model))
    give_back()
    return WarmEngine(executor, warmed, drafter)


def _agreement(executor: Executor, model: Model) -> float:
    """How far speculation keeps to plain decoding where steps round by their shape, on two short texts."""
    prompts = [model.text.encode(text, add_special_tokens=True)[:_COMPARED] for text in _TEXTS]
    agreement = shapes_agreement(executor, prompts, _COMPARED)
    _log.info("wider steps give %.1f %% of plain decoding's tokens", 100 * agreement)
    return agreement


def running_engine(settings: WorkerSettings, model: Model, warm: WarmEngine) -> EngineRunner:
    """The engine that a server talks to; its thread runs."""
    precision = precision_of(settings, page_tokens=settings.prompt_cache_page)
    limits = QueueLimits(settings.max_queued_requests, settings.max_queued_tokens)
    ends = frozenset(model.config.eos_token_ids)
    layered = None
    if settings.layered_entropy is not None:
        layered = LayeredRule(settings.layered_entropy, settings.layered_share)
    engine = Engine(
        warm.executor,
        warm.warmed,
        EngineSettings(
            # The runner decides on admission: it knows what has arrived since the last iteration.
            queue=QueueLimits(max_requests=sys.maxsize),
            speculation=SpeculationLimits(
                settings.speculative_tokens, settings.speculation_disable_above_batch
            ),
            prefill_token_limit=settings.prefill_token_limit,
            end_tokens=ends,
            layered=layered,
        ),
        cached_prompts(settings, warm.executor, f"{model.config}|{precision}"),
        warm.drafter,
    )
    facts = EngineFacts(
        max_length=min(engine.context, settings.max_model_len or model.config.max_position),
        slots=engine.shapes.slots,
        end_tokens=ends,
        details={
            "dtype": settings.dtype,
            "cache_dtype": precision.cache,
            "kernels": native.instructions() if precision.layout.kernels else "none",
            "block_size": str(settings.prompt_cache_page),
            "step_rows": str(list(engine.shapes.step_rows)),
            "length_buckets": str(list(engine.shapes.length_buckets)),
            "prefill_buckets": str(list(engine.shapes.prefill_buckets)),
            "row_exact": str(warm.warmed.exact).lower(),
        },
        speculation=SpeculationFacts(
            method=settings.speculation_method if settings.speculative_tokens else "off",
            most_tokens=settings.speculative_tokens,
            disabled_above_batch=settings.speculation_disable_above_batch,
            lossy=None if layered is None else f"entropy<={layered.entropy:g},share>={layered.share:g}",
        ),
        row_exact=warm.warmed.exact,
        agreement=warm.warmed.agreement,
        cache_pages={
            "device": settings.prompt_cache_device_pages,
            "host": settings.prompt_cache_host_pages,
        }
        if settings.prompt_cache_page
        else {},
        most_held=engine.shapes.slots + settings.max_queued_requests,
        most_waiting_tokens=settings.max_queued_tokens,
    )
    runner = EngineRunner(engine, facts, limits)
    runner.start()
    return runner
