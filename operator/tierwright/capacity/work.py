"""How much engine time a request takes: the step-time model, the mix of requests, and their product, the work."""

from dataclasses import dataclass, replace
from typing import Final, Literal

from tierwright.capacity.samples import Row

Accelerator = Literal["nvidia", "neuron", "cpu"]

_MIX_HALF_LIFE: Final = 900.0
"""Seconds of traffic after which a request counts half in the mix."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one engine step: `fixed + batch·B + context·K + prefill·P`.

    B: sequences in the batch, K: tokens of context that they hold together, P: prompt tokens computed in the step.
    In steady state at u = arrivals per second times work, a step takes fixed / (1 - u).
    """

    fixed: float
    batch: float
    context: float
    prefill: float

    def seconds(self, batch: float, context: float, prefill: float) -> float:
        """Seconds of a step."""
        return self.fixed + self.batch * batch + self.context * context + self.prefill * prefill

    def near(self, other: "StepTime") -> bool:
        """Whether no coefficient differs by more than a thousandth."""
        mine = (self.fixed, self.batch, self.context, self.prefill)
        theirs = (other.fixed, other.batch, other.context, other.prefill)
        return all(abs(a - b) <= 1e-3 * max(a, b) for a, b in zip(mine, theirs, strict=True))

    def moved(self, to: "StepTime", share: float) -> "StepTime":
        """Each coefficient moved by a share of the way to the other's."""
        mine = (self.fixed, self.batch, self.context, self.prefill)
        theirs = (to.fixed, to.batch, to.context, to.prefill)
        return StepTime(*(a + share * (b - a) for a, b in zip(mine, theirs, strict=True)))

    def scaled(self, factor: float) -> "StepTime":
        """The same engine on hardware that is slower by the factor."""
        return StepTime(*(factor * each for each in (self.fixed, self.batch, self.context, self.prefill)))


PRIOR_STEP_TIME: Final[dict[Accelerator, StepTime]] = {
    # An 8B model on an A100: linear fit to aiconfigurator-core's measured kernels, 1-4 % mean error.
    "nvidia": StepTime(11.47e-3, 38.1e-6, 79.4e-9, 60.4e-6),
    # Assumed: no constants are published; the A100's by the ratio of an Inferentia2's memory bandwidth and FLOP rate.
    "neuron": StepTime(22.9e-3, 76.0e-6, 159e-9, 99.0e-6),
    # A 135M model in float32 on two cores, measured with vLLM's CPU build.
    "cpu": StepTime(75.0e-3, 5.0e-3, 1.0e-6, 2.5e-3),
}
"""What is believed of an accelerator before anything was measured; the model's size is in none of them, so the scale is learned first."""


@dataclass(frozen=True, slots=True)
class Mix:
    """What requests look like: sums over the requests seen, the older ones fading."""

    requests: float = 0.0
    prompt_tokens: float = 0.0
    cached_tokens: float = 0.0
    output_tokens: float = 0.0

    def seen(self, row: Row) -> "Mix":
        """The mix after one more row. Without first tokens nothing fades: a quiet night keeps the last mix."""
        if row.prefilled <= 0 and row.output_tokens <= 0:
            return self
        kept = 0.5 ** (row.seconds / _MIX_HALF_LIFE)
        return replace(
            self,
            requests=kept * self.requests + row.prefilled,
            prompt_tokens=kept * self.prompt_tokens + row.prompt_tokens,
            cached_tokens=kept * self.cached_tokens + row.cached_tokens,
            output_tokens=kept * self.output_tokens + row.output_tokens,
        )

    def work(self, step: StepTime) -> float | None:
        """Seconds of engine time per request: `output·(batch + context·c) + prefill·computed`, c the mean context.

        The fixed part of a step is no work: it is shared by the batch. None before any request was seen.
        """
        if self.requests < 1:
            return None
        prompt = self.prompt_tokens / self.requests
        computed = max(1.0, (self.prompt_tokens - self.cached_tokens) / self.requests)
        output = max(1.0, self.output_tokens / self.requests)
        return output * (step.batch + step.context * (prompt + output / 2)) + step.prefill * computed
