"""Says how long one engine step takes: T = a + b * sequences + k * context + d * prefill tokens."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StepTimeModel:
    """Coefficients in seconds.

    A drafted token is verified in the same forward pass as a prompt token is computed, so it costs `d` too;
    `per_draft_token` is what proposing it costs (zero for look-up in the prompt).
    """

    base: float
    per_sequence: float
    per_context_token: float
    per_prefill_token: float
    per_draft_token: float = 0.0

    def seconds(
        self, *, sequences: int, context_tokens: int, prefill_tokens: int, draft_tokens: int = 0
    ) -> float:
        """Seconds of a step with `sequences` in the batch that attend to `context_tokens` computed earlier."""
        return (
            self.base
            + self.per_sequence * sequences
            + self.per_context_token * context_tokens
            + self.per_prefill_token * (prefill_tokens + draft_tokens)
            + self.per_draft_token * draft_tokens
        )
