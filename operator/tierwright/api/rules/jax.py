"""Rules on the JAX worker's buckets: sizes that its programs can have, and buckets that hold what the tier promises."""

from typing import Final

from tierwright.api.engine import EngineSpec, JaxOptions
from tierwright.api.rules.rule import AnyRule, Rule

LENGTH_STEP: Final = 128
"""Positions in one block of the worker's attention; each length is a whole number of them."""


def _whole_blocks(jax: JaxOptions) -> bool:
    return all(length % LENGTH_STEP == 0 for length in jax.length_buckets)


def _a_chunk_fits(jax: JaxOptions) -> bool:
    lengths, chunks = jax.length_buckets, jax.prefill_buckets
    return not lengths or not chunks or min(chunks) <= max(lengths)


def _lengths(engine: EngineSpec) -> list[int]:
    return engine.jax.length_buckets if engine.jax is not None else []


def _context_fits(engine: EngineSpec) -> bool:
    lengths, context = _lengths(engine), engine.max_model_len
    return not lengths or context is None or max(lengths) >= context


def _none_is_longer(engine: EngineSpec) -> bool:
    context = engine.max_model_len
    return context is None or all(length < context + LENGTH_STEP for length in _lengths(engine))


def _asked_cel(condition: str) -> str:
    """CEL that asks only where there are length buckets and a longest context."""
    return f"!has(self.jax) || !has(self.jax.lengthBuckets) || !has(self.maxModelLen) || {condition}"


RULES: Final[tuple[AnyRule, ...]] = (
    Rule[JaxOptions](
        at="spec.engine.jax",
        field="lengthBuckets",
        cel=f"!has(self.lengthBuckets) || self.lengthBuckets.all(length, length % {LENGTH_STEP} == 0)",
        message=f"attention is computed in blocks of {LENGTH_STEP} tokens; use multiples of {LENGTH_STEP}, such as 512; round up",
        holds=_whole_blocks,
    ),
    Rule[JaxOptions](
        at="spec.engine.jax",
        field="prefillBuckets",
        cel=(
            "!has(self.lengthBuckets) || !has(self.prefillBuckets) || self.lengthBuckets.size() == 0 || "
            "self.prefillBuckets.size() == 0 || "
            "self.prefillBuckets.exists(chunk, self.lengthBuckets.exists(length, chunk <= length))"
        ),
        message="no prompt chunk fits into the longest of lengthBuckets; add a smaller one, or leave prefillBuckets out",
        holds=_a_chunk_fits,
    ),
    Rule[EngineSpec](
        at="spec.engine",
        field="jax.lengthBuckets",
        cel=_asked_cel(
            "self.jax.lengthBuckets.size() == 0 || "
            "self.jax.lengthBuckets.exists(length, length >= self.maxModelLen)"
        ),
        message="the longest bucket is shorter than maxModelLen, and a request of that length would have no program; add a longer bucket or lower maxModelLen",
        holds=_context_fits,
    ),
    Rule[EngineSpec](
        at="spec.engine",
        field="jax.lengthBuckets",
        cel=_asked_cel(f"self.jax.lengthBuckets.all(length, length < self.maxModelLen + {LENGTH_STEP})"),
        message=f"a bucket is longer than maxModelLen rounded up to a multiple of {LENGTH_STEP}, and would never be used; remove it or raise maxModelLen",
        holds=_none_is_longer,
    ),
)
