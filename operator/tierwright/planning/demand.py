"""What one tier's part of a trace amounts to, and which of its requests no number of replicas could serve in time."""

from dataclasses import dataclass, field
from math import ceil
from typing import Final

from tierwright.planning.case import Case
from tierwright.planning.engine import Request

USUAL_LOAD: Final = 0.6
"""Share of its work limit at which a replica mostly keeps its objectives; only where a search or a fleet begins."""
BEGINNING: Final = 600.0
"""Seconds of a trace that tell how many replicas there would be already when it begins."""


@dataclass(slots=True)
class Demand:
    """Sums over the requests of one tier; times in seconds."""

    requests: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    last: float = 0.0
    work: float = 0.0
    """Engine seconds beside the fixed part of steps, see `capacity.work.Mix.work`."""
    early_work: float = 0.0
    """Of the beginning."""
    late: int = 0
    """Requests whose first token comes too late on an idle replica."""
    slow: int = 0
    unattainable: int = 0
    """Requests that miss any objective on an idle replica."""
    by_minute: dict[int, int] = field(default_factory=dict)
    """Requests by the minute of arrival."""

    def add(self, request: Request, case: Case) -> None:
        """Count one request; they come in order of arrival."""
        at, prompt, output = request
        engine = case.engine
        self.requests += 1
        self.prompt_tokens += prompt
        self.output_tokens += output
        self.last = at
        work = engine.prefill * prompt + output * (engine.batch + engine.context * (prompt + output / 2))
        self.work += work
        if at < BEGINNING:
            self.early_work += work
        late = engine.soonest(prompt, case.chunk) > case.first_token
        slow = output > 1 and engine.fastest(prompt, output) > case.per_token
        self.late += late
        self.slow += slow
        self.unattainable += late or slow
        minute = int(at // 60)
        self.by_minute[minute] = self.by_minute.get(minute, 0) + 1

    @property
    def busiest(self) -> int:
        """Most requests within one minute."""
        return max(self.by_minute.values(), default=0)

    @property
    def unattainable_share(self) -> float:
        """Share of requests that miss however many replicas there are."""
        return self.unattainable / max(1, self.requests)

    @property
    def replicas(self) -> float:
        """Replicas that the work alone would keep at their limit, on average."""
        return self.work / max(60.0, self.last)

    @property
    def at_the_beginning(self) -> int:
        """Replicas that a fleet would have already when the trace begins."""
        seconds = min(BEGINNING, max(60.0, self.last))
        return ceil(self.early_work / seconds / USUAL_LOAD)
