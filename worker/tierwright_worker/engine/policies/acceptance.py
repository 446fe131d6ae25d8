"""Decides which drafted tokens a step's logits confirm, and which token follows the last confirmed one.

Row i of a step holds the logits after i drafted tokens; k drafts need k + 1 rows. Whatever the drafts were, the tokens
that come out are those, or are distributed as those, of decoding without drafts. `accept_layered` alone is lossy, and
counts how often.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tierwright_worker.engine.interface import Acceptance, Logits, SamplingContext, SamplingParams
from tierwright_worker.engine.policies.candidates import Candidates, Row, log_sum_exp
from tierwright_worker.engine.policies.sampling import adjust, choose
from tierwright_worker.engine.policies.uniforms import uniforms

NOTHING_SEEN = SamplingContext()


@dataclass(frozen=True)
class LayeredRule:
    """Where a draft may pass without being the token of plain decoding: lossy, never the default.

    At positions whose entropy is at most `entropy` nats, where the model is sure and a near-equal choice is a matter of
    form, a draft passes with at least `share` of the likeliest token's probability. Elsewhere the exact rule holds.
    """

    entropy: float
    share: float

    def __post_init__(self) -> None:
        if self.entropy < 0 or not 0 < self.share <= 1:
            raise ValueError(f"need entropy >= 0 and 0 < share <= 1, got {self.entropy} and {self.share}")

    def passes(self, candidates: Candidates, draft: int) -> bool:
        """Whether a draft passes at a position of adjusted logits."""
        place = candidates.place(draft)
        if place is None:
            return False
        logs = candidates.logits.astype(np.float64) - log_sum_exp(candidates.logits)
        weights = np.exp(logs)
        entropy = -float(np.sum(weights * np.where(weights > 0, logs, 0.0)))
        return entropy <= self.entropy and bool(weights[place] >= self.share * np.max(weights))


def accept_greedy(draft: Sequence[int], best: Sequence[int]) -> Acceptance:
    """The longest run of the draft that equals the likeliest tokens; best: the argmax of each row."""
    _check_rows(len(best), len(draft))
    accepted = 0
    while accepted < len(draft) and best[accepted] == draft[accepted]:
        accepted += 1
    return Acceptance(accepted, tuple(best[: accepted + 1]))


def accept_sampled(
    draft: Sequence[int],
    logits: Logits,
    params: SamplingParams,
    *,
    position: int,
    context: SamplingContext = NOTHING_SEEN,
) -> Acceptance:
    """Samples every row as plain decoding would, and goes on while the draft is the token that came.

    A draft made without chance is accepted with the probability p(d) of rejection sampling (Leviathan et al. 2023, with
    a one-hot draft), and a refusal leaves p without d; one that a draft model drew with the same numbers is accepted where both models take the same token. The
    text is plain sampling's own either way: equal seeds give equal text. logits: (at least len(draft) + 1, V), unscaled.
    position: of the first token to emit, in prompt and output; with the seed it alone chooses the random numbers.
    """
    return _accept(draft, logits, params, position, context, None)


def accept_layered(
    draft: Sequence[int],
    logits: Logits,
    params: SamplingParams,
    *,
    position: int,
    context: SamplingContext = NOTHING_SEEN,
    rule: LayeredRule,
) -> Acceptance:
    """As `accept_sampled`, but a draft that differs still passes where `rule` lets it."""
    return _accept(draft, logits, params, position, context, rule)


def _accept(
    draft: Sequence[int],
    logits: Logits,
    params: SamplingParams,
    position: int,
    context: SamplingContext,
    rule: LayeredRule | None,
) -> Acceptance:
    _check_rows(len(logits), len(draft))
    numbers = uniforms(params.seed, position, len(draft) + 1)
    tokens: list[int] = []
    bent = 0
    while True:
        place = len(tokens)
        drafted = draft[place] if place < len(draft) else None
        candidates = _adjusted(logits[place], params, context)
        token = choose(candidates, params, float(numbers[place]))
        if rule is not None and drafted not in (None, token) and rule.passes(candidates, drafted):
            token = drafted
            bent += 1
        tokens.append(token)
        if token != drafted:
            return Acceptance(place, tuple(tokens), bent)
        context = _after(context, params, token)


def _adjusted(row: Row, params: SamplingParams, context: SamplingContext) -> Candidates:
    return adjust(Candidates.unsummed(row), params, context)


def _after(context: SamplingContext, params: SamplingParams, token: int) -> SamplingContext:
    """What the next row's penalties look at once `token` is taken."""
    if not params.changes_logits:
        return context
    output = Counter(context.output)
    output[token] += 1
    return replace(context, output=output)


def _check_rows(rows: int, drafts: int) -> None:
    if rows < drafts + 1:
        raise ValueError(f"{drafts} drafts need {drafts + 1} rows, got {rows}")
