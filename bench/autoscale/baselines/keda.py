"""KEDA on the engines' waiting requests, as vLLM's production-stack ships it.

Source: vllm-project/production-stack helm/templates/scaledobject-vllm.yaml: a Prometheus trigger on vllm:num_requests_waiting with
threshold 5, whose metric type is KEDA's default AverageValue. From one replica on KEDA is an HPA, whose loop and behaviour it leaves
at their defaults; its polling interval (30 s) and cooldown (300 s) govern zero replicas only.
"""

from bench.autoscale.baselines.hpa import LOOP, Behaviour, for_average
from bench.autoscale.baselines.knob import Knob
from bench.autoscale.baselines.loops import Every
from bench.autoscale.policy import Snapshot
from tierwright.observe.metrics import parse


class KedaWaiting:
    """So many waiting requests for each replica."""

    KNOBS = (
        Knob("threshold", 5, 0.1, 50, log=True),
        Knob("down_window", 300, 0, 1800),
    )

    def __init__(
        self, threshold: float = 5.0, least: int = 1, most: int = 24, *, down_window: float = 300.0
    ) -> None:
        self.name = f"keda-waiting-{threshold:g}"
        self._threshold, self._loop = threshold, Every(LOOP)
        self._behaviour = Behaviour(least, most, down_window=down_window)

    def tick(self, seen: Snapshot) -> int | None:
        """No series reads as zero, as KEDA's ignoreNullValues does."""
        if not self._loop.due(seen.now):
            return None
        waiting = (parse(seen.page[1]).waiting or 0.0) if seen.page else 0.0
        asked = for_average(waiting, self._threshold, max(1, seen.wanted))
        return self._behaviour.follow(seen.now, seen.wanted, asked)
