"""Runs the device: owns the weights, the slot cache and every executable; decides nothing but the cache's length.

Arrays stay on the device between calls; a step hands back the most probable tokens, and logits where they are asked for.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from tierwright_worker.engine.interface import Shapes
from tierwright_worker.engine.inventory import (
    prefill_name,
    programs,
    resize_name,
    resize_scales_name,
    restore_name,
    save_name,
    step_name,
)
from tierwright_worker.engine.programs import Built, Program, ProgramStore
from tierwright_worker.errors import DeviceError, OutOfMemoryError, SettingsError
from tierwright_worker.models import parallel
from tierwright_worker.models.config import ModelConfig
from tierwright_worker.models.layout import PLAIN, Layout, arranged, choose_layout, source_dtype
from tierwright_worker.models.parameters import LayerParameters, Parameters
from tierwright_worker.models.slot_cache import SlotCache, cache_bytes, empty_cache

_log = logging.getLogger(__name__)
Tokens = npt.NDArray[np.int32]
Page = tuple[jax.Array | npt.NDArray[Any], ...]  # see models.slot_cache.read_page


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step's outcome. `best` [slots, rows]; `logits` [slots, rows, vocabulary] stay on the device until read."""

    best: Tokens
    logits: jax.Array

    def host_logits(self) -> npt.NDArray[np.float32]:
        """All logits on the host; without a copy where the device is the host."""
        return np.asarray(self.logits)


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What a warm-up found. `exact`: every step shape gave the same bits; `step_rows` are those to be used.

    `agreement`: share of the compared rows, over all step shapes, whose most probable token was the narrowest one's.
    """

    exact: bool
    step_rows: tuple[int, ...]
    step_seconds: Mapping[tuple[int, int], float]  # (rows, length bucket) -> seconds
    origins: Mapping[str, int] = field(default_factory=dict)  # compiled | loaded -> programs
    seconds: float = 0.0
    agreement: float = 1.0


class Executor:
    """A model on a device. Not safe for several threads: the engine's loop is its one caller."""

    def __init__(
        self,
        config: ModelConfig,
        parameters: Parameters,
        shapes: Shapes,
        *,
        kv_dtype: Any = jnp.float32,
        page_tokens: int = 0,
        layout: Layout | None = None,
        devices: int = 1,
    ) -> None:
        """Put the weights on the device and make room for the shortest length bucket.

        `page_tokens`: the size of a page of the prompt cache; 0 = no pages are copied. `layout`: how weights lie, and
        with it what computes, None = what is fastest; those that are not in it yet are rearranged. `devices`:
        over how many the model is cut; more than one needs the plain layout.

        Raises:
            OutOfMemoryError: they do not fit.
            SettingsError: the model cannot be cut over so many devices, or there are fewer.
        """
        parallel.check_devices(config, devices)
        self.devices = devices
        self.config, self.shapes, self.page_tokens = config, shapes, page_tokens
        if layout is None:
            layout = choose_layout("auto" if devices == 1 else "off", page_tokens=page_tokens)
        if devices > 1 and layout != PLAIN:
            raise SettingsError(
                "--tensor-parallel-size above 1 goes neither with int8 weights nor with --kernels on"
            )
        self._kv_dtype, self.layout = jnp.dtype(kv_dtype), layout
        self._programs: dict[str, Callable[..., Any]] = {}
        self._resized: set[tuple[int, int]] = set()
        try:
            if devices == 1:
                self._parameters = arranged(jax.tree_util.tree_map(jnp.asarray, parameters), layout)
            else:
                ordered = parallel.cut(config, parameters, devices)
                self._parameters = parallel.placed(ordered, parallel.mesh(devices))
            self._cache = self._empty(shapes.length_buckets[0])
            jax.block_until_ready((self._parameters, self._cache))
        except (MemoryError, jax.errors.JaxRuntimeError) as error:
            size = cache_bytes(config, shapes.slots, shapes.length_buckets[-1], self._kv_dtype)
            raise OutOfMemoryError(
                f"weights and cache do not fit into the device's memory: {config.parameters / 1e9:.2f} billion "
                f"parameters, and up to {size / 2**30:.2f} GiB of keys and values; use fewer slots or a shorter context"
            ) from error

    @property
    def length(self) -> int:
        """The length bucket that the cache has now."""
        return self._cache.length

    def programs(self) -> list[Program]:
        """Every program that this executor runs."""
        return programs(
            self.config,
            self.shapes,
            dtype=source_dtype(self._parameters.head),
            kv_dtype=self._kv_dtype,
            page_tokens=self.page_tokens,
            layout=self.layout,
            devices=self.devices,
        )

    def build(self, store: ProgramStore) -> list[Built]:
        """Make every program ready."""
        built = []
        for program in self.programs():
            ready = store.build(program)
            _log.info("program %s %s in %.2f s", program.name, ready.origin, ready.seconds)
            self._programs[program.name] = ready.compiled
            built.append(ready)
        return built

    def step(self, tokens: Tokens, positions: Tokens) -> StepResult:
        """Run `tokens` [slots, rows] at `positions` [slots]; the cache must be long enough for what is used of them."""
        name = step_name(tokens.shape[1], self.length)
        best, logits, self._cache = self._run(name, self._parameters, self._cache, tokens, positions)
        return StepResult(np.asarray(best), logits)

    def prefill(self, slot: int, start: int, tokens: Sequence[int], bucket: int) -> None:
        """Compute one slot's positions from `start` on; `start + bucket` must not pass the cache's length."""
        padded = np.zeros(bucket, np.int32)
        padded[: len(tokens)] = tokens
        name = prefill_name(bucket, self.length)
        arguments = (padded, np.int32(slot), np.int32(start))
        self._cache = self._run(name, self._parameters, self._cache, *arguments)

    def save(self, slot: int, start: int) -> Page:
        """A page on the device with what the slot holds from `start` on."""
        page: Page = self._run(save_name(self.length), self._cache, np.int32(slot), np.int32(start))
        return page

    def restore(self, page: Page, slot: int, start: int) -> None:
        """Write a page, from the device or the host, into the slot from `start` on."""
        name = restore_name(self.length)
        self._cache = self._run(name, self._cache, page, np.int32(slot), np.int32(start))

    def to_host(self, page: Page) -> Page:
        """The page in host memory; a copy of its own, so that the device's may go."""
        return tuple(np.array(part) for part in page)

    def set_length(self, length: int) -> None:
        """Give the cache another length bucket; positions beyond a shorter one are lost."""
        if length == self.length:
            return
        self._resized.add((self.length, length))
        # Scales are resized like what they belong to, by a program of their own shape.
        names = [resize_name(self.length, length)] * 2 + [resize_scales_name(self.length, length)] * 2
        groups = [list(group) for group in self._cache.groups()]
        for name, arrays in zip(names, groups, strict=True):
            for layer in range(len(arrays)):
                # One array at a time, so that never more than one lies in memory twice.
                arrays[layer] = self._run(name, arrays[layer])
        self._cache = SlotCache(*(tuple(arrays) for arrays in groups))

    def try_resizes(self) -> None:
        """Run every change of length that has not run yet: the first run is slower, and a broken program must show early."""
        while left := [
            pair for pair in permutations(self.shapes.length_buckets, 2) if pair not in self._resized
        ]:
            # From where the cache is, if anything leads on from there.
            old, new = min(left, key=lambda pair: pair[0] != self.length)
            self.set_length(old)
            self.set_length(new)

    def clear(self) -> None:
        """Forget all positions, and go back to the shortest length."""
        self._cache = self._empty(self.shapes.length_buckets[0])

    def _run(self, name: str, *arguments: Any) -> Any:
        try:
            result = self._programs[name](*arguments)
            return jax.block_until_ready(result)
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" in str(error):
                raise OutOfMemoryError(f"program {name} ran out of the device's memory: {error}") from error
            raise DeviceError(f"program {name} failed on the device: {error}") from error

    def _empty(self, length: int) -> SlotCache:
        if self.devices == 1:
            stacked = isinstance(self._parameters.layers, LayerParameters)
            return empty_cache(self.config, self.shapes.slots, length, self._kv_dtype, stacked=stacked)
        whole = replace(self.config, kv_heads=parallel.cache_heads(self.config, self.devices))
        cache = empty_cache(whole, self.shapes.slots, length, self._kv_dtype)
        spread: SlotCache = parallel.placed(cache, parallel.mesh(self.devices))
        return spread


def timed(run: Callable[[], Any]) -> float:
    """Seconds that a call takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
