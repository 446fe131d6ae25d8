"""What the model of a fleet takes of an engine and of a request."""

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple


class Request(NamedTuple):
    """One request: arrival in seconds, prompt and output tokens."""

    at: float
    prompt: int
    output: int


@dataclass(frozen=True, slots=True)
class Hardware:
    """Seconds of a step: fixed + batch·B + context·K + prefill·P, as in `capacity.work.StepTime`; and its KV cache."""

    name: str
    fixed: float
    batch: float
    context: float
    prefill: float
    kv_blocks: int = 27_000
    block_size: int = 16

    def soonest(self, prompt: int, chunk: int) -> float:
        """Seconds to the first token on a replica that does nothing else, `chunk` prompt tokens a step at most."""
        return self.fixed * ceil(prompt / chunk) + self.prefill * prompt

    def fastest(self, prompt: int, output: int) -> float:
        """Seconds per output token on a replica that does nothing else; the context grows as it writes."""
        return self.fixed + self.batch + self.context * (prompt + output / 2)
