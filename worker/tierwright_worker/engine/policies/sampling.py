"""Decides which token follows, given the logits, what the request asked for and one uniform number."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tierwright_worker.engine.interface import SamplingContext, SamplingParams, TokenLogprobs
from tierwright_worker.engine.policies.candidates import Candidates, Row, TokenIds

Probabilities = NDArray[np.float64]

# Most nuclei are smaller than this; larger ones are found in a few rounds.
FIRST_NUCLEUS = 256


@dataclass(frozen=True)
class Distribution:
    """Tokens in ascending id order and their probabilities, which are positive and sum to 1; shapes (K,)."""

    ids: TokenIds
    probabilities: Probabilities

    def pick(self, uniform: float) -> int:
        """The token whose share of [0, 1) holds `uniform`."""
        edges = np.cumsum(self.probabilities)
        # The sum of floats may end beside 1; what the last edge says counts as 1.
        place = int(np.searchsorted(edges, uniform * edges[-1], side="right"))
        return int(self.ids[min(place, len(self.ids) - 1)])

    def probability(self, token: int) -> float:
        """The probability of a token, 0 for one that cannot come."""
        place = int(np.searchsorted(self.ids, token))
        if place == len(self.ids) or self.ids[place] != token:
            return 0.0
        return float(self.probabilities[place])


def params_problem(params: SamplingParams) -> tuple[str, str] | None:
    """The first field of a request that is out of its range and what is wrong with it, or None."""
    ranges = (
        ("temperature", params.temperature, 0.0, 100.0),
        ("top_p", params.top_p, 0.0, 1.0),
        ("min_p", params.min_p, 0.0, 1.0),
        ("presence_penalty", params.presence_penalty, -2.0, 2.0),
        ("frequency_penalty", params.frequency_penalty, -2.0, 2.0),
        # Beyond these a logit overflows, and nothing that can be chosen is left.
        ("repetition_penalty", params.repetition_penalty, 0.01, 100.0),
    )
    for name, value, low, high in ranges:
        # A NaN fails every comparison, so it is refused here as well.
        if not low <= value <= high:
            return name, f"must be between {low:g} and {high:g}, got {value!r}"
    if params.top_p == 0:
        return "top_p", "must be above 0"
    if params.top_k < -1:
        return "top_k", f"must be at least 1, or 0 or -1 for no limit, got {params.top_k}"
    if params.max_tokens < 1:
        return "max_tokens", f"must be at least 1, got {params.max_tokens}"
    if not 0 <= params.min_tokens <= params.max_tokens:
        return (
            "min_tokens",
            f"must be between 0 and max_tokens ({params.max_tokens}), got {params.min_tokens}",
        )
    for token, bias in params.logit_bias.items():
        if not -100 <= bias <= 100:
            return "logit_bias", f"must be between -100 and 100, got {bias!r} for token {token}"
    return None


def logprobs(logits: Row, token: int, alternatives: int) -> TokenLogprobs:
    """What the model itself thought of a token that was chosen, and of the likeliest others; logits: shape (V,)."""
    candidates = Candidates.whole(logits)
    return TokenLogprobs(token, candidates.log_probability(token), candidates.top(alternatives))


def distribution(candidates: Candidates, params: SamplingParams) -> Distribution:
    """What temperature, min-p, top-k and top-p, in vLLM's order, make of adjusted logits.

    Among equal logits the lower ids stay. At temperature 0 all weight lies on one token.
    """
    if params.temperature == 0:
        return Distribution(np.array([candidates.greedy], dtype=np.int64), np.ones(1))
    ids, logits = _within_top_k(candidates, params.top_k)
    # The likeliest token is 0 here, so that the smallest of temperatures makes nothing of it but 0.
    below = logits.astype(np.float64) - np.max(logits)
    with np.errstate(over="ignore"):
        weights = np.exp(below / params.temperature)
    kept = _kept(weights, params)
    return Distribution(ids[kept], weights[kept] / np.sum(weights[kept]))


def choose(candidates: Candidates, params: SamplingParams, uniform: float) -> int:
    """The next token from adjusted logits; `uniform` in [0, 1) does not matter at temperature 0."""
    if params.temperature == 0 or params.top_k == 1:
        return candidates.greedy
    return distribution(candidates, params).pick(uniform)


def adjust(candidates: Candidates, params: SamplingParams, context: SamplingContext) -> Candidates:
    """The logits after bias, penalties and the ban of an early end; `log_total` stays the model's own.

    Repetition: positive logits of seen tokens are divided by the penalty, negative ones multiplied (Keskar et al., 2019).
    Presence and frequency: OpenAI's, over generated tokens alone.
    """
    if not params.changes_logits:
        return candidates
    ids, logits = candidates.ids, candidates.logits.copy()
    for token, bias in params.logit_bias.items():
        place = candidates.place(token)
        if place is not None:
            logits[place] += bias
    if params.repetition_penalty != 1:
        places = _places(ids, context.prompt | context.output.keys())
        seen = logits[places]
        logits[places] = np.where(
            seen > 0, seen / params.repetition_penalty, seen * params.repetition_penalty
        )
    for token, count in context.output.items():
        place = candidates.place(token)
        if place is not None:
            logits[place] -= params.presence_penalty + params.frequency_penalty * count
    if sum(context.output.values()) < params.min_tokens:
        places = _places(ids, context.end_tokens | params.stop_token_ids)
        # Where nothing else is offered a ban would leave no token at all.
        if len(places) < len(ids):
            logits[places] = -np.inf
    return Candidates(ids, logits, candidates.log_total)


def _within_top_k(candidates: Candidates, top_k: int) -> tuple[TokenIds, Row]:
    """What may be among the best `top_k`, those equal to the last of them included: the rest need no exponential."""
    ids, logits = candidates.ids, candidates.logits
    if not 0 < top_k < len(ids):
        return ids, logits
    places = np.flatnonzero(logits >= np.partition(logits, -top_k)[-top_k])
    return ids[places], logits[places]


def _kept(weights: Probabilities, params: SamplingParams) -> TokenIds:
    """Ascending places of the weights that min-p, top-k and top-p leave; weights are relative to the largest, 1."""
    places = np.flatnonzero((weights > 0) & (weights >= params.min_p))
    if params.top_k <= 0 and params.top_p == 1:
        return places
    if params.top_k > 0:
        places = _largest(weights, places, params.top_k)
    if params.top_p < 1:
        places = _nucleus(weights, places, params.top_p)
    return np.sort(places)


def _largest(weights: Probabilities, places: TokenIds, count: int) -> TokenIds:
    """The `count` places with the largest weights, largest first, lower ids first among equals."""
    if count < len(places):
        # Sorting a whole vocabulary takes milliseconds; all that reach the edge are few.
        edge = np.partition(weights[places], -count)[-count]
        places = places[weights[places] >= edge]
    return places[np.argsort(-weights[places], kind="stable")][:count]


def _nucleus(weights: Probabilities, places: TokenIds, top_p: float) -> TokenIds:
    """The smallest set, largest weights first, whose share of all reaches `top_p`."""
    total = float(np.sum(weights[places]))
    wanted = top_p * total
    # All below this bound weigh less together than what may be left out, so they need not be looked through.
    places = places[weights[places] >= (1 - top_p) * total / (2 * len(places))]
    # Equals must come in the order of their ids, wherever they stood before.
    places = np.sort(places)
    count = FIRST_NUCLEUS
    while True:
        order = _largest(weights, places, count)
        sums = np.cumsum(weights[order])
        if sums[-1] >= wanted or count >= len(places):
            # A token stays while the sum before it is below what is wanted.
            return order[sums - weights[order] < wanted]
        count *= 8


def _places(ids: TokenIds, tokens: Iterable[int]) -> TokenIds:
    return np.flatnonzero(np.isin(ids, np.fromiter(tokens, dtype=np.int64)))
