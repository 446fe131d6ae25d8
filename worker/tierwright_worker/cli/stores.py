"""Names the programs of a served model and of its draft model: the one place, so that `compile` fills what `serve` reads."""

from dataclasses import replace

from tierwright_worker.cli.flags import WorkerSettings
from tierwright_worker.cli.precision import Precision
from tierwright_worker.engine.interface import Shapes
from tierwright_worker.engine.program_key import CompileEnvironment, compile_environment
from tierwright_worker.engine.programs import ProgramStore
from tierwright_worker.models.config import ModelConfig

# What was accepted last and the target's own token behind it: two tokens that a draft model has not seen.
_DRAFT_ROWS = (1, 2)


def target_store(
    settings: WorkerSettings, config: ModelConfig, shapes: Shapes, precision: Precision
) -> ProgramStore:
    """The programs of the served model."""
    key = programs_key(config, shapes, precision, settings.prompt_cache_page, compile_environment())
    return ProgramStore(settings.compile_cache, key=key)


def draft_shapes(shapes: Shapes) -> Shapes:
    """The shapes of a model that drafts for one of these shapes."""
    return replace(shapes, step_rows=_DRAFT_ROWS)


def draft_store(
    settings: WorkerSettings, config: ModelConfig, shapes: Shapes, precision: Precision
) -> ProgramStore:
    """The programs of the draft model; `shapes` are its own."""
    key = programs_key(config, shapes, precision, settings.prompt_cache_page, compile_environment())
    return ProgramStore(settings.compile_cache, key=f"draft|{key}")


def programs_key(
    config: ModelConfig, shapes: Shapes, precision: Precision, page: int, environment: CompileEnvironment
) -> str:
    """All that the programs of one model depend on; `page`: tokens of a page of the prompt cache."""
    return f"{config}|{shapes}|{precision}|{page}|{environment.key()}"
