"""Tensor parallelism: one model over several devices, each with whole heads, a share of the MLP and one of the vocabulary.

Every device runs the same forward pass on its share, as a smaller model; sums over devices follow the attention's and the
MLP's output, and the logits are put together at the end. Key-value heads that are fewer than the devices are replicated.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tierwright_worker.errors import SettingsError
from tierwright_worker.models.config import ModelConfig
from tierwright_worker.models.parameters import LayerParameters, Parameters, one_by_one
from tierwright_worker.models.slot_cache import SlotCache

AXIS = "model"  # the name of the mesh's one axis
_COLUMNS, _ROWS = P(None, AXIS), P(AXIS, None)


def check_devices(config: ModelConfig, devices: int) -> None:
    """Whether a model can be cut over so many devices, and whether they are there.

    Raises:
        SettingsError: it cannot, or there are fewer; the message names sizes that could be had.
    """
    if devices == 1:
        return
    there = len(jax.devices())
    possible = [size for size in range(1, there + 1) if _divides(config, size)]
    if devices > there:
        raise SettingsError(
            f"--tensor-parallel-size {devices}: only {there} devices are there; {_offer(possible)}"
        )
    if not _divides(config, devices):
        raise SettingsError(
            f"--tensor-parallel-size {devices} does not divide {config.heads} heads, {config.intermediate_size} inner "
            f"units and {config.kv_heads} key-value heads (or is no multiple of these); {_offer(possible)}"
        )


def _divides(config: ModelConfig, size: int) -> bool:
    shared = config.kv_heads % size == 0 or size % config.kv_heads == 0
    return config.heads % size == 0 and config.intermediate_size % size == 0 and shared


def _offer(possible: list[int]) -> str:
    return f"possible here: {', '.join(map(str, possible))}"


def cache_heads(config: ModelConfig, devices: int) -> int:
    """Key-value heads of the cache, replicated ones counted as often as they are there."""
    return max(config.kv_heads, devices)


def share_of(config: ModelConfig, devices: int) -> ModelConfig:
    """The model that each device computes."""
    return replace(
        config,
        heads=config.heads // devices,
        kv_heads=cache_heads(config, devices) // devices,
        intermediate_size=config.intermediate_size // devices,
    )


def mesh(devices: int) -> Mesh:
    """The devices, side by side."""
    return jax.make_mesh((devices,), (AXIS,), (AxisType.Auto,), devices=jax.devices()[:devices])


def cut(config: ModelConfig, parameters: Parameters, devices: int) -> Parameters:
    """The parameters in the order in which the devices take them; their vocabulary is padded to a multiple of the devices."""
    padding = -config.vocab_size % devices
    joined, gates = _joined_order(config, devices), _gate_order(config, devices)

    def columns(array: Any, order: npt.NDArray[np.int64]) -> Any:
        return None if array is None else jnp.take(array, order, axis=-1)

    def layer(own: LayerParameters) -> LayerParameters:
        return replace(
            own,
            qkv=columns(own.qkv, joined),
            qkv_bias=columns(own.qkv_bias, joined),
            gate_up=columns(own.gate_up, gates),
            gate_up_bias=columns(own.gate_up_bias, gates),
        )

    table = parameters.embedding
    return Parameters(
        embedding=None if table is None else jnp.pad(table, ((0, padding), (0, 0))),
        layers=tuple(layer(own) for own in one_by_one(parameters)),
        norm=parameters.norm,
        head=jnp.pad(parameters.head, ((0, 0), (0, padding))),
    )


def _joined_order(config: ModelConfig, devices: int) -> npt.NDArray[np.int64]:
    """Columns of the joined projections, device by device: its queries, then its keys, then its values."""
    queries = np.arange(config.q_size).reshape(devices, -1)
    heads = np.arange(config.kv_size).reshape(config.kv_heads, config.head_dim)
    own = np.repeat(heads, cache_heads(config, devices) // config.kv_heads, axis=0).reshape(devices, -1)
    return np.concatenate(
        [queries, config.q_size + own, config.q_size + config.kv_size + own], axis=1
    ).ravel()


def _gate_order(config: ModelConfig, devices: int) -> npt.NDArray[np.int64]:
    units = np.arange(config.intermediate_size).reshape(devices, -1)
    return np.concatenate([units, config.intermediate_size + units], axis=1).ravel()


def specs(value: Any) -> Any:
    """How an argument or a result of a program lies on the mesh."""
    if isinstance(value, Parameters):
        return _parameter_specs(value)
    if isinstance(value, SlotCache):
        return jax.tree_util.tree_map(lambda _: _COLUMNS, value)
    if isinstance(value, tuple):
        page = all(getattr(part, "ndim", 0) >= 4 for part in value)
        return tuple(P(None, None, AXIS) if page else specs(part) for part in value)
    return _COLUMNS if value.ndim >= 3 else P()


def _parameter_specs(parameters: Parameters) -> Parameters:
    def layer(own: LayerParameters) -> LayerParameters:
        return LayerParameters(
            attention_norm=P(),
            qkv=_COLUMNS,
            qkv_bias=None if own.qkv_bias is None else P(AXIS),
            q_norm=None if own.q_norm is None else P(),
            k_norm=None if own.k_norm is None else P(),
            output=_ROWS,
            output_bias=None if own.output_bias is None else P(),
            mlp_norm=P(),
            gate_up=_COLUMNS,
            gate_up_bias=None if own.gate_up_bias is None else P(AXIS),
            down=_ROWS,
            down_bias=None if own.down_bias is None else P(),
        )

    return Parameters(
        embedding=None if parameters.embedding is None else _ROWS,
        layers=tuple(layer(own) for own in one_by_one(parameters)),
        norm=P(),
        head=_COLUMNS,
    )


def placed(value: Any, on: Mesh) -> Any:
    """Arrays put where their specs say; shapes get their sharding."""

    def place(array: Any, spec: P) -> Any:
        sharding = NamedSharding(on, spec)
        if isinstance(array, jax.ShapeDtypeStruct):
            return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)
        return jax.device_put(array, sharding)

    return jax.tree_util.tree_map(place, value, specs(value))


def spread(
    function: Callable[..., Any], arguments: tuple[Any, ...], result: Any, on: Mesh
) -> Callable[..., Any]:
    """The function run by every device on its share of the arguments."""
    inputs, outputs = tuple(map(specs, arguments)), specs(result)
    shared: Callable[..., Any] = jax.shard_map(
        function, mesh=on, in_specs=inputs, out_specs=outputs, check_vma=False
    )
    return shared
