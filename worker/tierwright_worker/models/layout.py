"""How weights lie in memory: plain [inputs, outputs], in panels for the processor's kernels, or as int8 with scales by group.

int8: each GROUP of inputs of one output shares a scale, the largest magnitude over 127. Activations stay as precise as 16
bits per group; the sums within a group are whole numbers, so they are exact and the same in every shape.
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax

from tierwright_worker import native
from tierwright_worker.errors import SettingsError
from tierwright_worker.models.parameters import Array, LayerParameters, Parameters
from tierwright_worker.native import GROUP, PANEL
from tierwright_worker.native.packing import Pages, pack, pack_whole


@dataclass(frozen=True, slots=True)
class Layout:
    """`kernels`: for the kernels of `native`; `int8`: weights as whole numbers."""

    kernels: bool = False
    int8: bool = False


PLAIN = Layout()


def choose_layout(kernels: str = "auto", *, int8: bool = False, page_tokens: int = 0) -> Layout:
    """The layout for the default device. `kernels`: auto = where they can be used, on, off; `page_tokens`: 0 = no pages.

    Raises:
        SettingsError: `on`, and they cannot be used; the message says why.
    """
    if kernels == "off":
        return Layout(int8=int8)
    reason = None
    if not native.usable():
        reason = (
            "there is no library of them (python -m tierwright_worker.native.build), or the device is no CPU"
        )
    elif page_tokens % native.TURNED:
        reason = f"pages of the prompt cache ({page_tokens} tokens) must be multiples of {native.TURNED}"
    if kernels == "on" and reason is not None:
        raise SettingsError(f"--kernels on: the kernels cannot be used: {reason}")
    return Layout(kernels=reason is None, int8=int8)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True)
class Panels:
    """A weight for the kernels: PANEL outputs side by side, input after input, so that it is read from start to end.

    Those of the layers lie together in one, with the layer as the first axis.
    """

    values: Array  # [panels, inputs, PANEL]; int8: [panels, padded inputs / 2, PANEL, 2], pairs of inputs together
    scales: Array | None  # int8: [panels, groups, PANEL]
    outputs: int = field(metadata={"static": True})
    inputs: int = field(metadata={"static": True})

    @property
    def shape(self) -> tuple[int, int]:
        """Inputs and outputs, as those of a plain weight."""
        return self.inputs, self.outputs


@dataclass(frozen=True, slots=True)
class OneOfPanels:
    """The weight of one layer out of Panels that hold all layers', by a number that is known when the program runs."""

    every: Panels
    number: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True)
class Int8:
    """A weight of whole numbers for JAX's own operations."""

    values: Array  # [groups, GROUP, outputs]
    scales: Array  # [groups, outputs]
    inputs: int = field(metadata={"static": True})

    @property
    def shape(self) -> tuple[int, int]:
        """Inputs and outputs, as those of a plain weight."""
        return self.inputs, int(self.values.shape[-1])


def arranged(parameters: Parameters, layout: Layout) -> Parameters:
    """The parameters with every weight in `layout`; what is there already stays as it is."""
    embedding = parameters.embedding
    layers = parameters.layers
    if isinstance(layers, tuple):
        layers = tuple(_layer(layer, layout) for layer in layers)
        layers = stacked(layers) if layout.kernels else layers
    return Parameters(
        # Half the memory, and as precise as whole numbers would be; it is only looked up.
        embedding=embedding.astype(jnp.bfloat16) if embedding is not None and layout.int8 else embedding,
        layers=layers,
        norm=parameters.norm,
        head=weight(parameters.head, layout),
    )


def stacked(layers: tuple[LayerParameters, ...]) -> LayerParameters:
    """All layers in one: every array with the layer as its first axis."""
    joined: LayerParameters = jax.tree_util.tree_map(lambda *own: jnp.stack(own), *layers)
    return joined


def weight(plain: Array, layout: Layout) -> Array:
    """One weight [inputs, outputs] in `layout`, on the device; its former array is not kept."""
    if isinstance(plain, Panels | Int8) or layout == PLAIN:
        return plain
    return _arrange(plain, layout)


def from_stored(stored: npt.NDArray[Any], layout: Layout, memory: Pages) -> Array:
    """One weight as files store it, [outputs, inputs], in `layout`: as `weight` would lay it out, with fewer copies.

    It lies in `memory`, which a device that is the host takes without a copy; int8 without kernels lies on the device.
    """
    if layout.kernels:
        own = empty_panels(stored, layout, memory)
        fill(own, stored)
        return own
    if layout.int8:
        return weight(jnp.asarray(np.ascontiguousarray(stored.T)), layout)
    turned = memory.take(stored.shape[::-1], stored.dtype)
    np.copyto(turned, stored.T)
    return turned


def empty_panels(
    stored: npt.NDArray[Any], layout: Layout, memory: Pages, layers: tuple[int, ...] = ()
) -> Panels:
    """Room for weights of the same shape, [outputs, inputs], as this one; `layers`: how many, as a first axis."""
    outputs, inputs = stored.shape
    count, groups = -(-outputs // PANEL), -(-inputs // GROUP)
    if not layout.int8:
        return Panels(memory.take((*layers, count, inputs, PANEL), stored.dtype), None, outputs, inputs)
    values = memory.take((*layers, count, groups * GROUP // 2, PANEL, 2), np.int8)
    return Panels(values, memory.take((*layers, count, groups, PANEL), np.float32), outputs, inputs)


def fill(panels: Panels, stored: npt.NDArray[Any], layer: tuple[int, ...] = ()) -> None:
    """Write a weight [outputs, inputs] into panels on the host; `layer`: into which, where there are several."""
    if panels.scales is None:
        pack(stored, panels.values[layer])
    else:
        pack_whole(stored, panels.values[layer], panels.scales[layer])


def _layer(layer: LayerParameters, layout: Layout) -> LayerParameters:
    return LayerParameters(
        attention_norm=layer.attention_norm,
        qkv=weight(layer.qkv, layout),
        qkv_bias=layer.qkv_bias,
        q_norm=layer.q_norm,
        k_norm=layer.k_norm,
        output=weight(layer.output, layout),
        output_bias=layer.output_bias,
        mlp_norm=layer.mlp_norm,
        gate_up=weight(layer.gate_up, layout),
        gate_up_bias=layer.gate_up_bias,
        down=weight(layer.down, layout),
        down_bias=layer.down_bias,
    )


def _arrange_now(plain: jax.Array, layout: Layout) -> Panels | Int8:
    inputs, outputs = plain.shape
    if not layout.int8:
        return Panels(_panels(plain), None, outputs, inputs)
    whole = _quantised(plain)
    if not layout.kernels:
        return whole
    values = _panels(whole.values.reshape(-1, outputs))
    count, padded, _ = values.shape
    pairs = values.reshape(count, padded // 2, 2, PANEL).swapaxes(2, 3)
    return Panels(pairs, _panels(whole.scales), outputs, inputs)


_arrange = jax.jit(_arrange_now, static_argnames=("layout",))


def _panels(plain: jax.Array) -> jax.Array:
    inputs, outputs = plain.shape
    count = -(-outputs // PANEL)
    padded = jnp.pad(plain, ((0, 0), (0, count * PANEL - outputs)))
    return padded.reshape(inputs, count, PANEL).swapaxes(0, 1)


def _quantised(plain: jax.Array) -> Int8:
    inputs, outputs = plain.shape
    groups = -(-inputs // GROUP)
    padded = jnp.pad(plain.astype(jnp.float32), ((0, groups * GROUP - inputs), (0, 0)))
    grouped = padded.reshape(groups, GROUP, outputs)
    largest = jnp.max(jnp.abs(grouped), axis=1)
    inverse = jnp.where(largest > 0, 127.0 / largest, 0.0)
    values = jnp.round(grouped * inverse[:, None]).astype(jnp.int8)
    return Int8(values, largest / 127.0, inputs)


def source_dtype(arranged_weight: Array) -> jnp.dtype:
    """The dtype of the plain weight that was arranged; int8 weights are made of f32."""
    found: jnp.dtype
    if isinstance(arranged_weight, Int8):
        found = jnp.dtype(jnp.float32)
        return found
    array = arranged_weight.values if isinstance(arranged_weight, Panels) else arranged_weight
    found = jnp.dtype(jnp.float32 if array.dtype == jnp.int8 else array.dtype)
    return found


def columns(table: Array, ids: jax.Array) -> jax.Array:
    """Columns of a weight [inputs, outputs] in any layout: [len(ids), inputs] in f32; `ids` must be in range."""
    if isinstance(table, Int8):
        whole = _gather(table.values, ids, 2).astype(jnp.float32)
        scales = _gather(table.scales, ids, 1)
        return (whole * scales[..., None]).reshape(ids.shape[0], -1)[:, : table.inputs]
    if isinstance(table, Panels):
        own = table.values[ids // PANEL]
        inside = (ids % PANEL)[:, None, None]
        if table.scales is None:
            return jnp.take_along_axis(own, inside, axis=2)[..., 0].astype(jnp.float32)
        pairs = jnp.take_along_axis(own, inside[..., None], axis=2)[:, :, 0].astype(jnp.float32)
        scales = jnp.take_along_axis(table.scales[ids // PANEL], inside, axis=2)[..., 0]
        grouped = pairs.reshape(ids.shape[0], -1, GROUP) * scales[..., None]
        return grouped.reshape(ids.shape[0], -1)[:, : table.inputs]
    return _gather(table, ids, 1).astype(jnp.float32)


def rows_of(table: jax.Array, ids: jax.Array) -> jax.Array:
    """Rows of an array [rows, size]: [len(ids), size] in f32; `ids` must be in range."""
    vectors = lax.gather(
        table,
        ids[:, None],
        lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)),
        slice_sizes=(1, table.shape[1]),
        mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )
    return vectors.astype(jnp.float32)


def _gather(table: jax.Array, ids: jax.Array, axis: int) -> jax.Array:
    """Entries along the last axis (`axis`), put first."""
    shape = table.shape
    return lax.gather(
        table,
        ids[:, None],
        lax.GatherDimensionNumbers(
            offset_dims=tuple(range(1, axis + 1)), collapsed_slice_dims=(axis,), start_index_map=(axis,)
        ),
        slice_sizes=(*shape[:axis], 1),
        mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )
