"""The fleet model of `tierwright plan`, with vLLM's page as text and measured hardware: for tuning, no second referee."""

import random
from collections.abc import Sequence

from bench.autoscale.fleet_page import page
from bench.autoscale.policy import Policy
from tierwright.planning import fleet
from tierwright.planning.engine import Hardware, Request
from tierwright.planning.fleet import Outcome, Run

__all__ = ["A100_8B", "H100_8B", "Hardware", "Outcome", "Run", "replay"]

A100_8B = Hardware("8b-a100", 11.47e-3, 38.1e-6, 79.4e-9, 60.41e-6)
H100_8B = Hardware("8b-h100", 6.36e-3, 11.4e-6, 40.8e-9, 19.62e-6)


def replay(requests: Sequence[Request], policy: Policy, run: Run, target: float = 0.99) -> Outcome:
    """Replay the requests while the policy sets the number of replicas."""
    draw = random.Random(run.seed)  # noqa: S311 - a simulation
    return fleet.replay(requests, policy, run, page, draw.random, target)
