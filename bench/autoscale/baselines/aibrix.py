"""AIBrix's APA: the use per pod over its target, with tolerances, step limits and a cooldown.

Source: vllm-project/aibrix pkg/controller/podautoscaler: algorithm/apa.go, podautoscaler_controller.go (cooldown), context/context.go
(resync 10 s, rates 2 and 2, cooldown 0 s up and 300 s down); samples/autoscaling/apa.yaml: KV use with target 0.5, tolerances 0.1 up and
0.2 down, window 30 s.
"""

import math

from bench.autoscale.baselines.knob import Knob
from bench.autoscale.baselines.loops import Every, Window, bounded
from bench.autoscale.policy import Snapshot
from tierwright.observe.metrics import parse

RESYNC = 10.0
_CLOSE = 1e-9


class Apa:
    """ceil(n x use / target) outside the tolerances, at most x2 and at least /2.

    As shipped the cooldown takes the *least* recommendation of its window when the fleet shrinks, so that it hurries and
    never holds; `holds` takes the most instead, as its comment promises ("similar to K8s HPA").
    """

    KNOBS = (
        Knob("target", 0.5, 0.02, 0.95, log=True),
        Knob("up_tolerance", 0.1, 0, 0.5),
        Knob("down_tolerance", 0.2, 0, 0.8),
        Knob("cooldown", 300, 0, 1800),
        Knob("holds", 0, 0, 1, whole=True),
    )
    RATE = 2.0

    def __init__(
        self,
        target: float = 0.5,
        least: int = 1,
        most: int = 24,
        *,
        up_tolerance: float = 0.1,
        down_tolerance: float = 0.2,
        cooldown: float = 300.0,
        holds: float = 0,
        window: float = 30.0,
    ) -> None:
        self.name = f"aibrix-apa-{target:g}"
        self._target, self._bounds, self._holds = target, (least, most), bool(holds)
        self._up, self._down = up_tolerance, down_tolerance
        self._usage, self._asked, self._loop = Window(window), Window(cooldown), Every(RESYNC)

    def tick(self, seen: Snapshot) -> int | None:
        """Missing metrics keep the size."""
        if not self._loop.due(seen.now) or seen.page is None:
            return None
        usage = parse(seen.page[1]).kv_usage
        if usage is None or not seen.ready:
            return None
        self._usage.add(seen.now, usage)
        wanted = bounded(self.wanted(self._usage.mean, max(1, seen.wanted)), *self._bounds)
        self._asked.add(seen.now, wanted)
        if wanted < seen.wanted:
            wanted = int(max(self._asked) if self._holds else min(self._asked))
            wanted = min(wanted, seen.wanted)
        return wanted

    def wanted(self, usage: float, replicas: int) -> int:
        """Replicas for the mean use of one, before cooldown and bounds."""
        ratio = usage / self._target
        if ratio > 1 + self._up:
            return min(math.ceil(replicas * ratio - _CLOSE), math.ceil(self.RATE * replicas))
        if ratio < 1 - self._down:
            return max(math.ceil(replicas * ratio - _CLOSE), math.floor(replicas / self.RATE))
        return replicas
