"""From what was noted to the figures: best of several passes for each prompt, then the ratio of whole sets. Pure arithmetic.

The rate of one answer is tokens after its first step over the seconds that they took; reading the prompt is left out,
for it is the same work on both sides. The rate of a set is all its tokens over all its seconds, so that a long answer
counts for what it is, and one lucky short one for little.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from tierwright_worker.bench.asking import Answer
from tierwright_worker.bench.prompts import MEASURED, Kind, Prompt

Answers = Mapping[str, Sequence[Answer]]
"""Prompt id -> its answers by one engine, one per pass."""


@dataclass(frozen=True, slots=True)
class GearRuns:
    """What three engines answered to the same prompts. `loaded` had all its slots full."""

    fast: Answers
    plain: Answers
    loaded: Answers


@dataclass(frozen=True, slots=True)
class SetRates:
    """One kind of prompt: tokens per second of each engine after the first step, and what the ratios come from.

    `end_to_end`: plain over fast seconds from arrival to last token, reading the prompt included. `tokens_per_step`:
    the fast engine's. `worst` and `best`: the least and the greatest fast-over-plain ratio of a single prompt.
    """

    prompts: int
    tokens: int
    fast: float
    plain: float
    loaded: float
    end_to_end: float
    tokens_per_step: float
    worst: float
    best: float

    @property
    def speedup(self) -> float:
        """Fast over plain."""
        return self.fast / self.plain

    @property
    def over_loaded(self) -> float:
        """Fast over one stream of the loaded engine."""
        return self.fast / self.loaded


def set_rates(runs: GearRuns, prompts: Iterable[Prompt]) -> dict[Kind, SetRates]:
    """The rates of each kind that has prompts. Prompts whose answer ended within a first step are left out of them.

    Raises:
        ValueError: no prompt of a kind has an answer that is long enough, or an engine left one out.
    """
    by_kind: dict[Kind, list[str]] = {}
    for prompt in prompts:
        if prompt.kind in MEASURED:
            by_kind.setdefault(prompt.kind, []).append(prompt.id)
    return {kind: _rates(kind, runs, ids) for kind, ids in by_kind.items()}


def _rates(kind: Kind, runs: GearRuns, ids: Sequence[str]) -> SetRates:
    sides = (runs.fast, runs.plain, runs.loaded)
    usable = [name for name in ids if all(answer.decoded > 0 for side in sides for answer in side[name])]
    if not usable:
        raise ValueError(f"no {kind} prompt has an answer of more than one step")
    fast, plain, loaded = ([_best_token_seconds(side[name]) for name in usable] for side in sides)
    tokens = [len(runs.plain[name][0].tokens) for name in usable]
    single = [slow / quick for slow, quick in zip(plain, fast, strict=True)]
    steps = sum(runs.fast[name][0].steps for name in usable)
    return SetRates(
        prompts=len(usable),
        tokens=sum(tokens),
        fast=_rate(tokens, fast),
        plain=_rate(tokens, plain),
        loaded=_rate(tokens, loaded),
        end_to_end=_total_seconds(runs.plain, usable) / _total_seconds(runs.fast, usable),
        tokens_per_step=sum(len(runs.fast[name][0].tokens) for name in usable) / steps,
        worst=min(single),
        best=max(single),
    )


def _best_token_seconds(answers: Sequence[Answer]) -> float:
    return min(answer.decode_seconds / answer.decoded for answer in answers)


def _rate(tokens: Sequence[int], token_seconds: Sequence[float]) -> float:
    return sum(tokens) / sum(count * seconds for count, seconds in zip(tokens, token_seconds, strict=True))


def _total_seconds(side: Answers, ids: Iterable[str]) -> float:
    return sum(min(answer.seconds for answer in side[name]) for name in ids)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of how many answers the tokens were the same, and the prompts for which they were not.

    `tokens`: the share of all tokens that stand before the place where an answer first differs, 0 to 1.
    """

    same: int
    of: int
    differing: tuple[str, ...]
    tokens: float

    @property
    def all(self) -> bool:
        """Whether every answer was the same."""
        return self.same == self.of


def agreement(one: Answers, other: Answers) -> Agreement:
    """Whether each prompt got the same tokens in all passes of both sides."""
    differing, shared, total = [], 0, 0
    for name, answers in one.items():
        texts = {answer.tokens for answer in (*answers, *other[name])}
        if len(texts) > 1:
            differing.append(name)
        shared += _common(texts)
        total += max(map(len, texts))
    return Agreement(len(one) - len(differing), len(one), tuple(differing), shared / total if total else 1.0)


def _common(texts: Iterable[tuple[int, ...]]) -> int:
    """Tokens at the beginning that all texts share."""
    return sum(1 for _ in takewhile(lambda tokens: len(set(tokens)) == 1, zip(*texts, strict=False)))


def step_ratio(wide: Sequence[float], narrow: Sequence[float]) -> float:
    """Best of the wide step's seconds over best of the narrow one's."""
    return min(wide) / min(narrow)


def memory_ratio(resident: int, cache: int, weights: int) -> float:
    """(Resident bytes - bytes of keys and values) / bytes of weights."""
    return (resident - cache) / weights
