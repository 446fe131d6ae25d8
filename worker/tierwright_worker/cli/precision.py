"""In which numbers a model is computed: what is read, how weights are laid out, what keys and values are kept as."""

from dataclasses import dataclass

from tierwright_worker.cli.flags import WorkerSettings
from tierwright_worker.models.layout import Layout, choose_layout, weight
from tierwright_worker.models.parameters import Array


@dataclass(frozen=True, slots=True)
class Precision:
    """`read`: dtype in which weights are read, before they are arranged; `cache`: of keys and values."""

    read: str
    cache: str
    layout: Layout

    def arrange(self, plain: Array) -> Array:
        """One weight in its layout."""
        return weight(plain, self.layout)

    @property
    def exact(self) -> bool:
        """Whether every step shape is expected to round alike: in f32 always, with the kernels in every dtype."""
        return self.layout.kernels or (self.read == "float32" and not self.layout.int8)


def precision_of(settings: WorkerSettings, *, page_tokens: int) -> Precision:
    """What the settings ask for on this device.

    Raises:
        SettingsError: kernels that must be used and cannot be.
    """
    int8 = settings.dtype == "int8"
    read = "float32" if int8 else settings.dtype
    cache = read if settings.kv_cache_dtype == "auto" else settings.kv_cache_dtype
    return Precision(read, cache, choose_layout(settings.kernels, int8=int8, page_tokens=page_tokens))
