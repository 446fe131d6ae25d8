"""What is known of a tier that an operator looks at for the first time: what lay in the cluster, what its status tells."""

from dataclasses import replace

from tierwright.capacity.starts import Starts
from tierwright.capacity.state import TierState
from tierwright.control.autoscale_state import Learned
from tierwright.control.autoscale_subjects import Subject
from tierwright.control.autoscale_tier import Memory
from tierwright.control.shown import remembered
from tierwright.control.start_times import start_seconds
from tierwright.control.status_writer import stored_status
from tierwright.control.tier_settings import latency_objectives
from tierwright.kube.resources import Object


def first_memory(
    subject: Subject, obj: Object | None, learned: Learned | None, now: float, unread: str = ""
) -> Memory:
    """The memory to begin with; ``obj`` is the tier as it is stored, ``learned`` None where there is nothing.

    ``unread`` says why it could not be asked for: then it may be there. A lost state keeps the last start, which the
    tier's own status remembers.
    """
    status = stored_status(obj or {})
    generation = int(((obj or {}).get("metadata") or {}).get("generation") or 0)
    shown = remembered(status, generation, now)
    if shown is not None and shown.view.wanted is not None:
        # The status may be older than the replicas: whoever wrote it may have ended between the two.
        shown = replace(shown, view=replace(shown.view, wanted=subject.wanted))
    objectives = latency_objectives(subject.tier)
    if learned is not None:
        return Memory(
            subject.uid,
            state=learned.state,
            objectives=objectives,
            shown=shown,
            heard=learned.heard,
            heard_kept=learned.heard,
            written_at=learned.written_at,
            version=learned.version,
        )
    last = status.startup
    seconds = None if last is None else start_seconds(last.total_seconds, last.scheduling_seconds)
    starts = Starts((float(seconds),)) if seconds else Starts()
    return Memory(
        subject.uid, state=TierState(starts=starts), objectives=objectives, shown=shown, unread=unread
    )


def recalled(memory: Memory, learned: Learned | None) -> Memory:
    """The memory once what was learned earlier could be read after all; without any, what was learned since is kept."""
    if learned is None:
        return replace(memory, unread="")
    return replace(
        memory,
        unread="",
        # The wake-up that was acted on meanwhile is the newer one.
        state=learned.state,
        heard=memory.heard or learned.heard,
        heard_kept=learned.heard,
        written_at=learned.written_at,
        version=learned.version,
    )
