"""Rotary position embeddings in the half-split layout of Hugging Face: frequencies with their scaling, and the rotation."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from tierwright_worker.models.config import ModelConfig


def inverse_frequencies(config: ModelConfig) -> npt.NDArray[np.float32]:
    """Radians per position, [head_dim / 2].

    Scaling `llama3` (Llama 3.1's release): wavelengths longer than original / low_freq_factor are stretched by `factor`,
    those shorter than original / high_freq_factor are kept, and those between are blended linearly. Scaling `yarn` (Peng
    et al. 2023) does so by how often a frequency turns within the original context, blended over the pairs' numbers.
    """
    exponents = np.arange(0, config.head_dim, 2, dtype=np.float32) / np.float32(config.head_dim)
    base = (1.0 / (np.float32(config.rope_theta) ** exponents)).astype(np.float32)
    scaling = config.rope_scaling
    if scaling.kind == "linear":
        return (base / np.float32(scaling.factor)).astype(np.float32)
    if scaling.kind == "yarn":
        kept = _yarn_kept(config)
        return (base / np.float32(scaling.factor) * (1 - kept) + base * kept).astype(np.float32)
    if scaling.kind == "factors":
        return (base / np.asarray(scaling.factors, np.float32)).astype(np.float32)
    if scaling.kind == "llama3":
        wavelength = 2 * math.pi / base
        original = scaling.original_max_position
        blend = (original / wavelength - scaling.low_freq_factor) / (
            scaling.high_freq_factor - scaling.low_freq_factor
        )
        kept = np.clip(blend, 0.0, 1.0)
        return ((1 - kept) * base / scaling.factor + kept * base).astype(np.float32)
    return base


def _yarn_kept(config: ModelConfig) -> npt.NDArray[np.float32]:
    """How much of each pair's own frequency stays, from 0 to 1, [head_dim / 2]."""
    scaling, size = config.rope_scaling, config.head_dim

    def pair(turns: float) -> float:
        wavelengths = scaling.original_max_position / (turns * 2 * math.pi)
        return size * math.log(wavelengths) / (2 * math.log(config.rope_theta))

    low = max(math.floor(pair(scaling.beta_fast)), 0)
    high = min(math.ceil(pair(scaling.beta_slow)), size - 1)
    pairs = np.arange(size // 2, dtype=np.float32)
    kept: npt.NDArray[np.float32] = 1 - np.clip((pairs - low) / max(high - low, 0.001), 0.0, 1.0)
    return kept.astype(np.float32)


def rotation(
    positions: jax.Array, frequencies: npt.NDArray[np.float32], scale: float = 1.0
) -> tuple[jax.Array, jax.Array]:
    """Cosine and sine times `scale`, each [*positions.shape, head_dim / 2], in f32."""
    angles = positions.astype(jnp.float32)[..., None] * frequencies
    if scale == 1.0:
        return jnp.cos(angles), jnp.sin(angles)
    return jnp.cos(angles) * jnp.float32(scale), jnp.sin(angles) * jnp.float32(scale)


def rotate(vectors: jax.Array, cosine: jax.Array, sine: jax.Array) -> jax.Array:
    """Rotate [..., heads, head_dim] by angles [..., head_dim / 2], which are the same for all heads; f32."""
    first, second = jnp.split(vectors, 2, axis=-1)
    cosine, sine = cosine[..., None, :], sine[..., None, :]
    return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)
