"""Decides where an answer ends by its tokens: end of text, a stop token, or its length."""

from collections.abc import Sequence
from dataclasses import dataclass

from tierwright_worker.engine.interface import FinishReason, SamplingParams


@dataclass(frozen=True)
class Kept:
    """Tokens of a step that belong to the answer; `ended_by` is the end or stop token, which is the last of them."""

    tokens: tuple[int, ...]
    reason: FinishReason | None = None
    ended_by: int | None = None


def keep(tokens: Sequence[int], *, already: int, params: SamplingParams, end_tokens: frozenset[int]) -> Kept:
    """Cut a step's tokens where the answer ends; `already` is how many came before, `end_tokens` the model's own."""
    for place, token in enumerate(tokens):
        count = already + place + 1
        ends = token in params.stop_token_ids or (token in end_tokens and not params.ignore_eos)
        if ends and count > params.min_tokens:
            return Kept(tuple(tokens[: place + 1]), FinishReason.STOP, token)
        if count >= params.max_tokens:
            return Kept(tuple(tokens[: place + 1]), FinishReason.LENGTH)
    return Kept(tuple(tokens))


def room(already: int, used: int, context: int, max_tokens: int) -> int:
    """Tokens that an answer may still get: by its own limit, and by a context of which `used` tokens are taken."""
    return max(0, min(max_tokens - already, context - used))
