"""Chooses the tokens that one request gains from a step: by the most probable ones alone, or by its logits."""

from collections.abc import Iterable
from collections.abc import Sequence as Several
from dataclasses import dataclass

from tierwright_worker.engine.grammar import masked
from tierwright_worker.engine.interface import Acceptance, Logits, TokenLogprobs
from tierwright_worker.engine.policies.acceptance import (
    LayeredRule,
    accept_greedy,
    accept_layered,
    accept_sampled,
)
from tierwright_worker.engine.policies.sampling import logprobs
from tierwright_worker.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Choosing:
    """What holds for all requests of an engine. `layered` None: every answer is exact."""

    end_tokens: frozenset[int]
    layered: LayeredRule | None

    def needs_logits(self, sequence: Sequence, draft: tuple[int, ...]) -> bool:
        """Whether the most probable tokens are not enough to choose, or to tell what was chosen."""
        params = sequence.request.params
        bends = bool(draft) and self.layered is not None
        constrained = sequence.request.constraint is not None
        return bends or constrained or not params.greedy or params.logprobs is not None

    def accept(
        self, sequence: Sequence, draft: tuple[int, ...], best: Several[int], rows: Logits | None
    ) -> Acceptance:
        """What is kept of a draft, and the token behind it. `best` and `rows`: of the rows that fed it.

        Raises:
            ConstraintError: the answer cannot be kept to its constraint.
        """
        params, constraint = sequence.request.params, sequence.request.constraint
        layered = self.layered if draft else None
        if params.greedy and layered is None and constraint is None:
            return accept_greedy(draft, best)
        if rows is None:
            raise AssertionError("a step whose logits decide has logits")
        if constraint is not None:
            rows = masked(rows, constraint.allowed(draft))
        position = sequence.prompt_tokens + len(sequence.output)
        context = sequence.sampling_context(self.end_tokens)
        if layered is None:
            return accept_sampled(draft, rows, params, position=position, context=context)
        return accept_layered(draft, rows, params, position=position, context=context, rule=layered)


def logprobs_of(sequence: Sequence, rows: Logits | None, tokens: Iterable[int]) -> tuple[TokenLogprobs, ...]:
    """Of the tokens that a step gave, where the request asks for them; `rows`: the model's own, without a constraint."""
    alternatives = sequence.request.params.logprobs
    if alternatives is None or rows is None:
        return ()
    return tuple(logprobs(row, token, alternatives) for row, token in zip(rows, tokens, strict=False))
