"""Decides which executables exist: step rows, length buckets and prefill buckets, from what the tier asks for."""

from collections.abc import Sequence

from tierwright_worker.engine.interface import Shapes
from tierwright_worker.errors import SettingsError
from tierwright_worker.models.exact import BLOCK

SMALLEST_PREFILL = 64  # products of fewer rows would be rounded differently from those of more
_FIRST_LENGTH = 256


def plan_shapes(
    *,
    slots: int,
    max_context: int,
    draft_tokens: int,
    length_buckets: Sequence[int] = (),
    prefill_buckets: Sequence[int] = (),
    growth: int = 2,
) -> Shapes:
    """The shapes of an engine; empty bucket lists mean: from 256 up to the context by `growth`, and 64, 256.

    Raises:
        SettingsError: a number out of range, or buckets that do not fit the context or the blocks of attention.
    """
    if slots < 1 or max_context < 1 or draft_tokens < 0:
        raise SettingsError(
            f"slots ({slots}) and context ({max_context}) must be at least 1, draft tokens ({draft_tokens}) at least 0"
        )
    longest = -(-max_context // BLOCK) * BLOCK
    lengths = tuple(sorted(set(length_buckets))) or _growing(longest, growth)
    bad = [length for length in lengths if length % BLOCK or not 0 < length <= longest]
    if bad:
        raise SettingsError(
            f"length buckets {bad}: each must be a multiple of {BLOCK} and at most {longest}, the context rounded up"
        )
    if lengths[-1] < max_context:
        raise SettingsError(
            f"the longest length bucket, {lengths[-1]}, is below the context of {max_context} tokens"
        )
    prefills = tuple(sorted(set(prefill_buckets))) or (SMALLEST_PREFILL, 256)
    small = [bucket for bucket in prefills if bucket < SMALLEST_PREFILL]
    if small:
        raise SettingsError(f"prefill buckets {small}: each must be at least {SMALLEST_PREFILL} tokens")
    fitting = tuple(bucket for bucket in prefills if bucket <= lengths[-1])
    if not fitting:
        raise SettingsError(f"no prefill bucket of {list(prefills)} fits a context of {lengths[-1]} tokens")
    return Shapes(
        slots=slots, step_rows=_step_rows(draft_tokens), length_buckets=lengths, prefill_buckets=fitting
    )


def _growing(longest: int, growth: int) -> tuple[int, ...]:
    lengths = [longest]
    length = _FIRST_LENGTH
    while length < longest:
        lengths.append(length)
        length *= growth
    return tuple(sorted(lengths))


def _step_rows(draft_tokens: int) -> tuple[int, ...]:
    """One row for plain decoding, and one more than 2, 4, 8 ... drafted tokens up to the number asked for."""
    drafts, count = {0, draft_tokens}, 2
    while count < draft_tokens:
        drafts.add(count)
        count *= 2
    return tuple(sorted(draft + 1 for draft in drafts))
