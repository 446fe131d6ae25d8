"""In which numbers a model is computed, and by what: what is read, how weights lie, what keys and values are kept as."""

from dataclasses import dataclass, replace

from tierwright_worker.cli.flags import WorkerSettings
from tierwright_worker.errors import SettingsError
from tierwright_worker.models.layout import Layout, choose_layout


@dataclass(frozen=True, slots=True)
class Precision:
    """`read`: dtype in which weights are read, before they are arranged; `cache`: of keys and values.

    `devices`: over how many the model is cut.
    """

    read: str
    cache: str
    layout: Layout
    devices: int = 1

    @property
    def exact(self) -> bool:
        """Whether every step shape is expected to round alike: in f32 always, with the kernels in every dtype."""
        return self.layout.kernels or (self.read == "float32" and not self.layout.int8)


def precision_of(settings: WorkerSettings, *, page_tokens: int) -> Precision:
    """What the settings ask for on this device.

    Raises:
        SettingsError: kernels that must be used and cannot be, or several devices with what only one can do.
    """
    devices = settings.tensor_parallel_size
    if devices > 1 and (settings.dtype == "int8" or settings.kernels == "on"):
        raise SettingsError(
            f"--tensor-parallel-size {devices} goes neither with --dtype int8 nor with --kernels on; use float32 or bfloat16"
        )
    int8 = settings.dtype == "int8"
    read = "float32" if int8 else settings.dtype
    cache = read if settings.kv_cache_dtype == "auto" else settings.kv_cache_dtype
    kernels = settings.kernels if devices == 1 else "off"
    return Precision(read, cache, choose_layout(kernels, int8=int8, page_tokens=page_tokens), devices)


def draft_precision_of(settings: WorkerSettings) -> Precision:
    """That of the draft model, which is small, and so stays on one device."""
    return replace(precision_of(settings, page_tokens=settings.prompt_cache_page), devices=1)
