"""Decides whether one more request may wait, and after how many seconds one that may not should come again."""

import math

from tierwright_worker.engine.interface import Admission, QueueLimits

SHORTEST_RETRY = 1
LONGEST_RETRY = 60
# The names that vLLM gives these limits in `vllm:admission_rejections`.
REQUESTS = "max_num_queued_reqs"
TOKENS = "max_num_queued_tokens"


def admit(
    prompt_tokens: int,
    *,
    waiting_requests: int,
    waiting_tokens: int,
    limits: QueueLimits,
    tokens_per_second: float | None,
) -> Admission:
    """Admitted, or the limit that forbids it.

    A queue that is empty takes any prompt: a limit on waiting tokens is about waiting, not about length. `retry_after`
    is the time in which the waiting tokens are read at `tokens_per_second`, within 1 and 60 s.
    """
    reason = "admitted"
    if waiting_requests + 1 > limits.max_requests:
        reason = REQUESTS
    elif (
        limits.max_tokens is not None
        and waiting_requests
        and waiting_tokens + prompt_tokens > limits.max_tokens
    ):
        reason = TOKENS
    if reason == "admitted":
        return Admission(True, reason)
    return Admission(False, reason, retry_after(waiting_tokens, tokens_per_second))


def retry_after(waiting_tokens: int, tokens_per_second: float | None) -> int:
    """Whole seconds until the queue is likely to have room; the shortest when the rate is not known."""
    if tokens_per_second is None or tokens_per_second <= 0:
        return SHORTEST_RETRY
    return max(SHORTEST_RETRY, min(LONGEST_RETRY, math.ceil(waiting_tokens / tokens_per_second)))
