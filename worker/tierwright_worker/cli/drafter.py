"""Starts the small model that drafts for a served one: checks that the two belong together, and warms its programs."""

import logging

import jax

from tierwright_worker.cli.flags import WorkerSettings
from tierwright_worker.cli.pages import cached_prompts
from tierwright_worker.cli.precision import draft_precision_of
from tierwright_worker.cli.stores import draft_shapes, draft_store
from tierwright_worker.engine.draft_model import DraftModel
from tierwright_worker.engine.executor import Executor
from tierwright_worker.engine.interface import Shapes
from tierwright_worker.engine.warm_up import warm_up
from tierwright_worker.errors import SettingsError
from tierwright_worker.loading.model import Model, open_model

_log = logging.getLogger(__name__)


def check_speculation(settings: WorkerSettings) -> None:
    """Refuse flags that contradict each other.

    Raises:
        SettingsError: a draft model without the method, the method without a model, or a bound out of its range.
    """
    drafts, path = settings.speculation_method == "draft", settings.speculative_model
    if drafts and path is None:
        raise SettingsError("--speculation-method draft needs --speculative-model, the model that drafts")
    if path is not None and not drafts:
        raise SettingsError(
            "--speculative-model is for --speculation-method draft; ngram drafts without a model"
        )
    if drafts and settings.speculative_tokens == 0:
        raise SettingsError("--speculation-method draft needs --speculative-tokens of at least 1")
    entropy, share = settings.layered_entropy, settings.layered_share
    if entropy is not None and (not entropy >= 0 or not 0 < share <= 1):
        raise SettingsError(
            f"--layered-entropy must be at least 0 and --layered-share above 0 and at most 1, got {entropy} and {share}"
        )


def warm_drafter(settings: WorkerSettings, target: Model, shapes: Shapes) -> DraftModel | None:
    """The draft model, ready, on the target's slots and lengths; None where none is asked for.

    Raises:
        WorkerError: it cannot be read, or it does not fit the target or the memory.
    """
    if settings.speculative_model is None:
        return None
    precision = draft_precision_of(settings)
    model = open_model(
        settings.speculative_model,
        cache=settings.weights_cache,
        dtype=precision.read,
        layout=precision.layout,
        place=jax.device_put,
    )
    _check_pair(settings, target, model, shapes)
    own = draft_shapes(shapes)
    executor = Executor(
        model.config,
        model.parameters,
        own,
        kv_dtype=precision.cache,
        page_tokens=settings.prompt_cache_page,
        layout=precision.layout,
    )
    # Whatever it drafts is verified, so its shapes need not round alike.
    warmed = warm_up(executor, draft_store(settings, model.config, own, precision), require_exact=False)
    _log.info("draft model warm in %.1f s: programs %s", warmed.seconds, dict(warmed.origins))
    return DraftModel(
        executor,
        warmed,
        vocabulary=target.config.vocab_size,
        end_tokens=frozenset(target.config.eos_token_ids),
        prefill_token_limit=settings.prefill_token_limit,
        prompts=cached_prompts(settings, executor, f"draft|{model.config}|{precision}"),
    )


def _check_pair(settings: WorkerSettings, target: Model, draft: Model, shapes: Shapes) -> None:
    path = settings.speculative_model
    if draft.text.tokenizer.get_vocab() != target.text.tokenizer.get_vocab():
        raise SettingsError(
            f"--speculative-model {path} has another tokenizer than --model {settings.model}; a draft must be of the "
            "same tokens"
        )
    if draft.config.max_position < shapes.max_length:
        raise SettingsError(
            f"--speculative-model {path} was trained for {draft.config.max_position} tokens, the served context is "
            f"{shapes.max_length}; lower --max-model-len"
        )
