"""AIBrix's APA and KPA: the use per pod over its target, with step limits and a cooldown.

Source: vllm-project/aibrix pkg/controller/podautoscaler: algorithm/apa.go and kpa.go, podautoscaler_controller.go (cooldown),
context/context.go (resync 10 s, rates 2 and 2, cooldown 0 s up and 300 s down), metrics/client.go (the mean over pods goes into the
windows); samples/autoscaling/apa.yaml: KV use with target 0.5, tolerances 0.1 up and 0.2 down, window 30 s; kpa.yaml: KV use with target 0.5.
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
        return cooled(seen.wanted, wanted, self._asked, holds=self._holds)

    def wanted(self, usage: float, replicas: int) -> int:
        """Replicas for the mean use of one, before cooldown and bounds."""
        ratio = usage / self._target
        if ratio > 1 + self._up:
            return min(math.ceil(replicas * ratio - _CLOSE), math.ceil(self.RATE * replicas))
        if ratio < 1 - self._down:
            return max(math.ceil(replicas * ratio - _CLOSE), math.floor(replicas / self.RATE))
        return replicas


class AibrixKpa:
    """ceil(mean use per pod / target) within [floor(n / 2), 2n]; the larger of both windows' while the panic window's mean is twice
    the stable one's.

    As shipped the mean over pods is divided by the target as if it were their sum: a share of a cache can never ask for more than
    ceil(1 / target) pods. `per_fleet` multiplies by the pods first, which is what Knative's rule means. The cooldown is APA's,
    and so is `holds`.
    """

    KNOBS = (
        Knob("target", 0.5, 0.02, 0.95, log=True),
        Knob("stable_window", 180, 10, 1800, log=True),
        Knob("panic_window", 60, 10, 300, log=True),
        Knob("panic_threshold", 2, 1.05, 10, log=True),
        Knob("cooldown", 300, 0, 1800),
        Knob("holds", 0, 0, 1, whole=True),
        Knob("per_fleet", 0, 0, 1, whole=True),
    )
    RATE = 2.0

    def __init__(
        self,
        target: float = 0.5,
        least: int = 1,
        most: int = 24,
        *,
        stable_window: float = 180.0,
        panic_window: float = 60.0,
        panic_threshold: float = 2.0,
        cooldown: float = 300.0,
        holds: float = 0,
        per_fleet: float = 0,
    ) -> None:
        self.name = f"aibrix-kpa-{target:g}"
        self._target, self._bounds = target, (least, most)
        self._threshold, self._holds, self._per_fleet = panic_threshold, bool(holds), bool(per_fleet)
        self._stable, self._panic = Window(stable_window), Window(panic_window)
        self._asked, self._loop = Window(cooldown), Every(RESYNC)

    def tick(self, seen: Snapshot) -> int | None:
        """Missing metrics keep the size."""
        if not self._loop.due(seen.now) or seen.page is None:
            return None
        usage = parse(seen.page[1]).kv_usage
        if usage is None or not seen.ready:
            return None
        figure = usage * seen.ready if self._per_fleet else usage
        self._stable.add(seen.now, figure)
        self._panic.add(seen.now, figure)
        wanted = self.wanted(self._stable.mean, self._panic.mean, max(1, seen.wanted))
        wanted = bounded(wanted, *self._bounds)
        self._asked.add(seen.now, wanted)
        return cooled(seen.wanted, wanted, self._asked, holds=self._holds)

    def wanted(self, stable: float, panic: float, replicas: int) -> int:
        """Replicas for the mean of both windows, before cooldown and bounds. A stable mean of zero is panic, too."""
        highest, lowest = max(1, math.ceil(self.RATE * replicas)), math.floor(replicas / self.RATE)
        asked = [
            min(max(math.ceil(value / self._target - _CLOSE), lowest), highest) for value in (stable, panic)
        ]
        panics = stable <= 0 or panic / stable > self._threshold
        return max(asked) if panics else asked[0]


def cooled(replicas: int, wanted: int, asked: Window, *, holds: bool) -> int:
    """The size once the cooldown's window of recommendations has had its say over shrinking."""
    if wanted >= replicas:
        return wanted
    return min(replicas, int(max(asked) if holds else min(asked)))
