"""What the operator has written so far, from the API server's audit log, and how often it has compared everything."""

import re
from pathlib import Path

from tests.support.kubernetes import mutations
from tests.support.operator_process import OperatorProcess
from tests.support.waiting import eventually


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
