"""A fixed fleet: what every rule has to beat. The best static fleet is this one with its size tuned on the training days."""

from bench.autoscale.baselines.knob import Knob
from bench.autoscale.policy import Snapshot


class Static:
    """As many replicas as given, always."""

    KNOBS = (Knob("replicas", 4, 1, 24, whole=True),)

    def __init__(self, replicas: float = 4) -> None:
        self.name = f"static-{replicas:g}"
        self._replicas = int(replicas)

    def tick(self, seen: Snapshot) -> int | None:  # noqa: ARG002 - the fleet is fixed
        """The same each time."""
        return self._replicas
