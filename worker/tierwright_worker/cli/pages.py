"""Puts a prompt cache around an executor, the served model's as well as the draft model's, from the same settings."""

from tierwright_worker.cli.flags import WorkerSettings
from tierwright_worker.engine.cached_prompts import CachedPrompts
from tierwright_worker.engine.executor import Executor
from tierwright_worker.engine.interface import CacheSettings


def cached_prompts(settings: WorkerSettings, executor: Executor, engine: str) -> CachedPrompts | None:
    """The cache, empty; None where the settings ask for none. `engine` names all that its pages depend on."""
    if settings.prompt_cache_page == 0:
        return None
    cache = CacheSettings(
        page_tokens=settings.prompt_cache_page,
        device_pages=settings.prompt_cache_device_pages,
        host_pages=settings.prompt_cache_host_pages,
        ttl=settings.prompt_cache_ttl,
    )
    return CachedPrompts(cache, executor, engine)
