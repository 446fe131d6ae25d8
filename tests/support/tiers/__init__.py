"""Tiers that break one rule each, and tiers that pass.

The unit tests ask the models, the integration tests ask the API server; both must answer alike.
"""

from typing import Final

from tests.support.tiers.cases import Case
from tests.support.tiers.engine import ENGINE, SOURCES
from tests.support.tiers.extra_args import EXTRA_ARGS
from tests.support.tiers.fine import FINE
from tests.support.tiers.hardware import HARDWARE
from tests.support.tiers.replicas import CACHE, IDENTITY, ROLLOUT_AND_TRAFFIC, SCALING

REFUSED: Final[tuple[Case, ...]] = (
    *EXTRA_ARGS,
    *ENGINE,
    *SOURCES,
    *HARDWARE,
    *CACHE,
    *SCALING,
    *ROLLOUT_AND_TRAFFIC,
    *IDENTITY,
)
"""Each breaks exactly one rule."""

__all__ = ["FINE", "REFUSED"]
