"""When: the queue, the reconcile of one tier, its status, the resync and the wiring to kopf."""
