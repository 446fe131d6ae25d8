"""Holds the logits that one position offers to the sampler, whole or cut to the best by the device."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float32]
TokenIds = NDArray[np.int64]


@dataclass(frozen=True)
class Candidates:
    """Tokens that a position may take, in ascending id order, with their logits.

    ids, logits: shape (K,). `log_total` is the log of the summed exponentials of *all* logits of the vocabulary, in
    nats; a device that returns its best K alone returns it as well, so that log-probabilities stay exact.
    """

    ids: TokenIds
    logits: Row
    log_total: float

    @staticmethod
    def whole(logits: Row) -> "Candidates":
        """Every token of the vocabulary; logits: shape (V,)."""
        return Candidates(np.arange(logits.shape[0], dtype=np.int64), logits, log_sum_exp(logits))

    @staticmethod
    def unsummed(logits: Row) -> "Candidates":
        """As `whole`, for a choice alone: the sum over a vocabulary costs more than the choice, and is left out (NaN)."""
        return Candidates(np.arange(logits.shape[0], dtype=np.int64), logits, math.nan)

    @staticmethod
    def best(ids: TokenIds, logits: Row, log_total: float) -> "Candidates":
        """The best K in any order, as a device's top-k returns them."""
        order = np.argsort(ids)
        return Candidates(ids[order], logits[order], log_total)

    @property
    def greedy(self) -> int:
        """The likeliest token; the lowest id among equals, as the device's own argmax rules."""
        return int(self.ids[int(np.argmax(self.logits))])

    def place(self, token: int) -> int | None:
        """Where a token stands in `ids`, None where it is not offered."""
        place = int(np.searchsorted(self.ids, token))
        return place if place < len(self.ids) and self.ids[place] == token else None

    def log_probability(self, token: int) -> float:
        """The natural log of a token's probability at temperature 1; minus infinity for one that is not offered."""
        place = self.place(token)
        return -math.inf if place is None else float(self.logits[place]) - self.log_total

    def top(self, count: int) -> tuple[tuple[int, float], ...]:
        """The `count` likeliest tokens with their log-probabilities, likeliest first, lower ids first among equals."""
        count = min(count, len(self.ids))
        if count < 1:
            return ()
        # All that reach the lowest logit of the best `count`, so that the ids decide among equals at the edge.
        edge = np.partition(self.logits, len(self.logits) - count)[len(self.logits) - count]
        places = np.flatnonzero(self.logits >= edge)
        order = places[np.argsort(-self.logits[places], kind="stable")][:count]
        return tuple((int(self.ids[place]), float(self.logits[place]) - self.log_total) for place in order)


def log_sum_exp(logits: Row) -> float:
    """log(sum(exp(logits))) in double precision, safe against overflow."""
    highest = float(np.max(logits))
    return highest + math.log(float(np.sum(np.exp(logits.astype(np.float64) - highest))))
