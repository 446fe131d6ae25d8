"""Decides how many tokens to draft for one request: as many as its acceptance so far and the step times pay for."""

from collections.abc import Mapping
from dataclasses import replace

from tierwright_worker.engine.interface import AcceptanceState, DraftLength, SpeculationLimits

# Before anything was seen a guess counts as worth a try: two imagined tries at these rates.
PRIOR_TRIES = 2.0
FIRST_PRIOR = 0.5
FURTHER_PRIOR = 0.8
# A weight falls to 1/e after about 24 observations: an answer that turns from prose to a copy is noticed in a few steps.
FADE = 1 - 1 / 24
# More rows must pay by more than the noise in measured step times.
GAIN = 1.02
PROBE_AFTER = 24


def choose_draft_length(
    state: AcceptanceState, *, decoding: int, limits: SpeculationLimits, step_cost: Mapping[int, float]
) -> DraftLength:
    """Tokens to draft and one word why: off, batch (too many sequences decode), plain, probe, pays.

    step_cost: seconds of a step by its rows; k drafts need a step of k + 1 rows or more. ValueError where it is empty.
    """
    if not step_cost:
        raise ValueError("no step time was measured")
    if limits.max_tokens == 0:
        return DraftLength(0, "off")
    if limits.disable_above_batch is not None and decoding > limits.disable_above_batch:
        return DraftLength(0, "batch")
    best_rate, best = 0.0, 0
    fewest = 0
    for rows in sorted(step_cost):
        drafts = min(rows - 1, limits.max_tokens)
        rate = expected_tokens(state, drafts) / step_cost[rows]
        if rate > best_rate * GAIN:
            best_rate, best = rate, drafts
        fewest = fewest or drafts
    if best:
        return DraftLength(best, "pays")
    if fewest and state.steps_since_probe >= PROBE_AFTER:
        return DraftLength(fewest, "probe")
    return DraftLength(0, "plain")


def expected_tokens(state: AcceptanceState, drafts: int) -> float:
    """Tokens that a step with this many drafts is expected to give, the model's own one included.

    1 + a (1 - b^k) / (1 - b) for k drafts, where the first is kept at the rate a and each further one at b.
    """
    run = _rate(state.first_accepted, state.first_tried, FIRST_PRIOR)
    further = _rate(state.further_accepted, state.further_tried, FURTHER_PRIOR)
    tokens = 1.0
    for _ in range(drafts):
        tokens += run
        run *= further
    return tokens


def observe(
    state: AcceptanceState, *, proposed: int, drafted: int, accepted: int, agreed: bool | None = None
) -> AcceptanceState:
    """What is known after one more step.

    proposed tokens were at hand, drafted of them verified, accepted of those kept. agreed: with nothing drafted,
    whether the first proposed token is the one that came; it is learned without the cost of drafting.
    """
    if not 0 <= accepted <= drafted <= proposed:
        raise ValueError(f"need accepted <= drafted <= proposed, got {accepted}, {drafted}, {proposed}")
    if not proposed:
        return state
    if not drafted:
        if agreed is None:
            return replace(state, steps_since_probe=state.steps_since_probe + 1)
        return _learned(state, first=agreed, further_tries=0, further_accepted=0)
    # The first refused token was a try as well; those behind it never were.
    tries = min(drafted, accepted + 1) - 1
    return _learned(state, first=accepted > 0, further_tries=tries, further_accepted=max(accepted - 1, 0))


def _learned(
    state: AcceptanceState, *, first: bool, further_tries: int, further_accepted: int
) -> AcceptanceState:
    fade = FADE**further_tries
    return AcceptanceState(
        first_tried=state.first_tried * FADE + 1,
        first_accepted=state.first_accepted * FADE + first,
        further_tried=state.further_tried * fade + further_tries,
        further_accepted=state.further_accepted * fade + further_accepted,
    )


def _rate(accepted: float, tried: float, prior: float) -> float:
    return (accepted + prior * PRIOR_TRIES) / (tried + PRIOR_TRIES)
