"""Writes the runbook: one section for each reason, what it means and what to do."""

from collections.abc import Mapping
from typing import Final

from tierwright.api.conditions import CONDITIONS, REASONS, Reason

_SCHEDULERS_WORDS: Final[Mapping[str, str]] = {
    "Insufficient nvidia.com/gpu": "Too few free devices on each such node: all are taken, or `hardware.count` is more than "
    "one node has. `kubectl describe node` shows under Allocated resources who holds them.",
    "Insufficient cpu, Insufficient memory": "`hardware.resources` asks for more than is left beside the other pods.",
    "didn't match Pod's node affinity/selector": "These nodes are outside `hardware.nodePool`. That is right for all "
    "nodes of other pools; when all nodes are among them, the pool has none.",
    "had untolerated taint": "Add the taint to `hardware.tolerations`; the accelerator's usual one is tolerated by default. "
    "`node.kubernetes.io/not-ready` and the like mean a sick node.",
    "didn't match pod topology spread constraints": "The zones cannot be kept even: `hardware.topologySpread`, or a "
    "zone without nodes.",
    "didn't find available persistent volumes to bind, had volume node affinity conflict": "The volume lies in a zone "
    "in which the pool has no free node. A class with `volumeBindingMode: WaitForFirstConsumer` chooses the node first.",
    "Too many pods": "The node is at its limit of pods, whatever is free otherwise.",
    "were unschedulable": "Somebody has cordoned these nodes.",
}
"""What the scheduler says of some nodes, and what it means for a tier."""

_HOW_TO_READ: Final = (
    "**How to read the scheduler's words.** `0/5 nodes are available: 2 Insufficient nvidia.com/gpu, 3 node(s) didn't match "
    "Pod's node affinity/selector.` counts each of the five nodes once, under the first thing that spoke against it: three "
    "are not in the tier's pool, which is as it should be, and the two that are have too few devices. So look at the "
    "lines that are left when the other pools are taken away."
)


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
        if reason is Reason.UNSCHEDULABLE:
            lines += [*_schedulers_words(), ""]
    return "\n".join(lines)


def _schedulers_words() -> list[str]:
    rows = [f"| `{words}` | {meaning} |" for words, meaning in _SCHEDULERS_WORDS.items()]
    return [_HOW_TO_READ, "", "| words | what they mean |", "|---|---|", *rows]
