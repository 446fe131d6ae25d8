"""Lists every program that an engine ever runs, by its shapes; needs the model's configuration, but neither weights nor device."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tierwright_worker.engine.interface import Shapes
from tierwright_worker.engine.programs import Program
from tierwright_worker.models import forward, parallel
from tierwright_worker.models.config import ModelConfig
from tierwright_worker.models.layout import PLAIN, Layout, arranged
from tierwright_worker.models.parameters import LayerParameters, parameter_shapes
from tierwright_worker.models.slot_cache import (
    SlotCache,
    cache_shape,
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
    """One array of keys or values from one length to another."""
    return f"resize-{old}-{new}"


def resize_scales_name(old: int, new: int) -> str:
    """One array of scales of int8 keys or values, likewise."""
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
    devices: int = 1,
) -> list[Program]:
    """All programs. `dtype`: of the weights before they are arranged in `layout`; `page_tokens` 0: no prompt cache.

    `devices`: over how many the model is cut; more than one needs as many here.
    """
    if devices > 1:
        return _spread(
            config, shapes, dtype=dtype, kv_dtype=kv_dtype, page_tokens=page_tokens, devices=devices
        )
    parameters = _arranged_shapes(config, dtype, layout)
    return _programs(config, parameters, shapes, config.kv_heads, kv_dtype, page_tokens, None)


def _arranged_shapes(config: ModelConfig, dtype: Any, layout: Layout) -> Any:
    """The parameters' shapes in a layout; where one holds all layers, as one layer's, so that no more are traced."""
    plain = parameter_shapes(replace(config, layers=1) if layout.kernels else config, dtype)
    parameters: Any = jax.eval_shape(partial(arranged, layout=layout), plain)
    if not layout.kernels:
        return parameters
    layers = jax.tree_util.tree_map(
        lambda one: jax.ShapeDtypeStruct((config.layers, *one.shape[1:]), one.dtype), parameters.layers
    )
    return replace(parameters, layers=layers)


def _spread(
    config: ModelConfig, shapes: Shapes, *, dtype: Any, kv_dtype: Any, page_tokens: int, devices: int
) -> list[Program]:
    """The programs of one device's share, each run by all devices at once."""
    parallel.check_devices(config, devices)
    mesh, share = parallel.mesh(devices), parallel.share_of(config, devices)
    parameters: Any = jax.eval_shape(
        lambda whole: parallel.cut(config, whole, devices), parameter_shapes(config, dtype)
    )
    heads = parallel.cache_heads(config, devices)
    return [
        replace(
            program,
            function=parallel.spread(program.function, program.arguments, program.result, mesh),
            arguments=parallel.placed(program.arguments, mesh),
            devices=devices,
        )
        for program in _programs(share, parameters, shapes, heads, kv_dtype, page_tokens, parallel.AXIS)
    ]


def _programs(
    config: ModelConfig,
    parameters: Any,
    shapes: Shapes,
    cache_heads: int,
    kv_dtype: Any,
    page_tokens: int,
    axis: str | None,
) -> list[Program]:
    lengths = shapes.length_buckets
    whole, stacked = replace(config, kv_heads=cache_heads), isinstance(parameters.layers, LayerParameters)
    caches = {
        length: cache_shape(whole, shapes.slots, length, kv_dtype, stacked=stacked) for length in lengths
    }
    steps = [
        _step(partial(forward.step, config, axis=axis), parameters, cache, rows, shapes.slots)
        for cache in caches.values()
        for rows in shapes.step_rows
    ]
    prefills = [
        _prefill(partial(forward.prefill, config, axis=axis), parameters, cache, bucket)
        for length, cache in caches.items()
        for bucket in shapes.prefill_buckets
        if bucket <= length
    ]
    resizes = [
        program for old in lengths for new in lengths if old != new for program in _resizes(caches[old], new)
    ]
    pages = [program for cache in caches.values() for program in _pages(cache, page_tokens)]
    return [*steps, *prefills, *resizes, *pages]


def _step(function: Callable[..., Any], parameters: Any, cache: SlotCache, rows: int, slots: int) -> Program:
    tokens = _int32(slots, rows)
    return Program(
        name=step_name(rows, cache.length),
        function=function,
        arguments=(parameters, cache, tokens, _int32(slots)),
        result=(tokens, tokens, cache),
        donate=(1,),
    )


def _prefill(function: Callable[..., Any], parameters: Any, cache: SlotCache, bucket: int) -> Program:
    return Program(
        name=prefill_name(bucket, cache.length),
        function=function,
        arguments=(parameters, cache, _int32(bucket), _int32(), _int32()),
        result=cache,
        donate=(1,),
    )


def _resizes(cache: SlotCache, length: int) -> list[Program]:
    names = [resize_name(cache.length, length), resize_scales_name(cache.length, length)]
    arrays = [cache.keys[0], *cache.key_scales[:1]]
    function = partial(resize, length=length, axis=cache.keys[0].ndim - 2)
    return [
        Program(name=name, function=function, arguments=(array,), result=array)
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


def _int32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.int32)
