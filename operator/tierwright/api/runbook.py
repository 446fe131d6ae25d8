"""Writes the runbook: one section for each reason, what it means and what to do."""

from tierwright.api.conditions import CONDITIONS, REASONS


def runbook_page() -> str:
    """The page as Markdown; a section's anchor is the reason in lower case."""
    lines = [
        "# Runbook",
        "",
        "<!-- Generated from operator/tierwright/api/conditions.py by `make generate`; do not edit. -->",
        "",
        "`kubectl describe itier NAME` shows the tier's conditions. Each has a reason, which is a section below, and a "
        "message with the particulars. `kubectl get itier -o wide` shows the reason of Ready.",
        "",
        "| condition | states, when True |",
        "|---|---|",
        *(f"| {condition} | {meaning} |" for condition, meaning in CONDITIONS.items()),
        "",
    ]
    for reason, info in REASONS.items():
        lines += [f"## {reason}", "", info.meaning, "", f"**What to do.** {info.remedy}", ""]
    return "\n".join(lines)
