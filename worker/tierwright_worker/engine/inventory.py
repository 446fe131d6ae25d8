"""Lists every program that an engine ever runs, by its shapes; needs the model's configuration, but neither weights nor device."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tierwright_worker.engine.interface import Shapes
from tierwright_worker.engine.programs import Program
from tierwright_worker.models import forward
from tierwright_worker.models.config import ModelConfig
from tierwright_worker.models.layout import PLAIN, Layout, arranged
from tierwright_worker.models.parameters import parameter_shapes
from tierwright_worker.models.slot_cache import (
    SlotCache,
    empty_cache,
    read_page,
    resize,
    write_page,
)


def step_name(rows: int, length: int) -> str:
    """A step of `rows` rows per slot on a cache of `length` positions."""
    return f"step-{rows}-{length}"


def prefill_name(bucket: int, length: int) -> str:
    """A chunk of `bucket` positions of one slot, on a cache of `length` positions."""
    return f"prefill-{bucket}-{length}"


def resize_name(old: int, new: int) -> str:
    """One layer's keys or values from one length to another."""
    return f"resize-{old}-{new}"


def resize_scales_name(old: int, new: int) -> str:
    """One layer's scales of int8 keys or values, likewise."""
    return f"resize-scales-{old}-{new}"


def save_name(length: int) -> str:
    """One page of the prompt cache out of a slot."""
    return f"save-{length}"


def restore_name(length: int) -> str:
    """One page of the prompt cache into a slot."""
    return f"restore-{length}"


def programs(
    config: ModelConfig,
    shapes: Shapes,
    *,
    dtype: Any,
    kv_dtype: Any,
    page_tokens: int = 0,
    layout: Layout = PLAIN,
) -> list[Program]:
    """All programs. `dtype`: of the weights before they are arranged in `layout`; `page_tokens` 0: no prompt cache."""
    parameters: Any = jax.eval_shape(partial(arranged, layout=layout), parameter_shapes(config, dtype))
    lengths = shapes.length_buckets
    caches = {length: _cache_shape(config, shapes.slots, length, kv_dtype) for length in lengths}
    steps = [
        _step(config, parameters, cache, rows, shapes.slots)
        for cache in caches.values()
        for rows in shapes.step_rows
    ]
    prefills = [
        _prefill(config, parameters, cache, bucket)
        for length, cache in caches.items()
        for bucket in shapes.prefill_buckets
        if bucket <= length
    ]
    resizes = [
        program for old in lengths for new in lengths if old != new for program in _resizes(caches[old], new)
    ]
    pages = [program for cache in caches.values() for program in _pages(cache, page_tokens)]
    return [*steps, *prefills, *resizes, *pages]


def _step(config: ModelConfig, parameters: Any, cache: SlotCache, rows: int, slots: int) -> Program:
    tokens = _int32(slots, rows)
    return Program(
        name=step_name(rows, cache.length),
        function=partial(forward.step, config),
        arguments=(parameters, cache, tokens, _int32(slots)),
        result=(tokens, tokens, cache),
        donate=(1,),
    )


def _prefill(config: ModelConfig, parameters: Any, cache: SlotCache, bucket: int) -> Program:
    return Program(
        name=prefill_name(bucket, cache.length),
        function=partial(forward.prefill, config),
        arguments=(parameters, cache, _int32(bucket), _int32(), _int32()),
        result=cache,
        donate=(1,),
    )


def _resizes(cache: SlotCache, length: int) -> list[Program]:
    names = [resize_name(cache.length, length), resize_scales_name(cache.length, length)]
    arrays = [cache.keys[0], *cache.key_scales[:1]]
    return [
        Program(name=name, function=partial(resize, length=length), arguments=(array,), result=array)
        for name, array in zip(names, arrays, strict=False)
    ]


def _pages(cache: SlotCache, tokens: int) -> list[Program]:
    if tokens == 0:
        return []
    place, read = (_int32(), _int32()), partial(read_page, tokens=tokens)
    page = jax.eval_shape(read, cache, *place)
    save = Program(name=save_name(cache.length), function=read, arguments=(cache, *place), result=page)
    restore = Program(
        name=restore_name(cache.length),
        function=write_page,
        arguments=(cache, page, *place),
        result=cache,
        donate=(0,),
    )
    return [save, restore]


def _cache_shape(config: ModelConfig, slots: int, length: int, dtype: Any) -> SlotCache:
    shape: SlotCache = jax.eval_shape(lambda: empty_cache(config, slots, length, dtype))
    return shape


def _int32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.int32)
