"""What one reconcile of one key asks of the queue."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    """Nothing more until something changes or the next resync; terminal errors end here too, said in the status."""


@dataclass(frozen=True)
class RequeueAfter:
    """All went well, but look again after ``seconds`` (> 0): something is awaited that may send no event.

    As long as looking again is the only reason to run, the pause doubles each time up to ``at_most`` seconds: what has
    been stuck for long will be stuck for a while. None keeps it as it is.
    """

    seconds: float
    at_most: float | None = None


@dataclass(frozen=True)
class Failed:
    """It went wrong in a way that may pass: try again with backoff, not before ``retry_after`` seconds."""

    error: Exception
    retry_after: float | None = None


Outcome = Done | RequeueAfter | Failed
