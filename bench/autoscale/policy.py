"""What a policy sees and answers. Kept apart from our own, so that a rule's code is not told by ours."""

from tierwright.planning import fleet

Snapshot = fleet.Snapshot[str]
Policy = fleet.Policy[str]
