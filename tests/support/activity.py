"""What the operator has written so far, from the API server's audit log, and how often it has compared everything."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.support.kubernetes import mutations
from tests.support.operator_process import OperatorProcess
from tests.support.waiting import eventually

PATIENCE_S: Final = 0.8
"""How long the operator of the tests, which compares everything each second, does not repeat a refused write."""


def resyncs(operator: OperatorProcess) -> float:
    """How many resyncs the operator has done."""
    found = re.search(
        r'^tierwright_resyncs_total\{result="ok"\} (\S+)$', operator.get("/metrics"), re.MULTILINE
    )
    return float(found.group(1)) if found else 0.0


def wait_resyncs(operator: OperatorProcess, count: int, *, deadline_s: float = 120) -> None:
    """Wait until this many more resyncs are done."""
    target = resyncs(operator) + count
    eventually(lambda: resyncs(operator) >= target, f"{count} resyncs", deadline_s=deadline_s)


def writes(audit_log: Path, user: str, namespace: str) -> list[str]:
    """The user's writes in the namespace so far, as verb, resource/subresource, name and status code."""
    return [
        f"{each['verb']} {each['objectRef']['resource']}/{each['objectRef'].get('subresource', '')}"
        f" {each['objectRef'].get('name')} {each['responseStatus']['code']}"
        for each in mutations(audit_log, user)
        if each["objectRef"].get("namespace") == namespace
    ]


def writes_at_rest(
    audit_log: Path, operator: OperatorProcess, namespace: str, *, but_for: str = " nothing "
) -> list[str]:
    """All writes so far, once a whole resync passed without another one; ``but_for`` names those that may go on."""

    def so_far() -> list[str]:
        return [each for each in writes(audit_log, operator.user, namespace) if but_for not in each]

    def at_rest() -> bool:
        before = len(so_far())
        wait_resyncs(operator, 1)
        return len(so_far()) == before

    eventually(at_rest, "the operator has said and done all", deadline_s=120)
    return writes(audit_log, operator.user, namespace)


def tries_allowed() -> Callable[[], int]:
    """Begins to count time; returns how often by then one write that is refused may have been tried.

    On a slow machine more time passes between two resyncs than there should be, so the clock decides.
    """
    started = time.monotonic()
    return lambda: int((time.monotonic() - started) / PATIENCE_S) + 1
