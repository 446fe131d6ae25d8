"""Lets the scaler say its number of replicas, by its own field manager, and not again and again against others."""

from datetime import datetime
from typing import Final

from tierwright.control import scaler
from tierwright.control.attempts import Attempts, Patience
from tierwright.control.children import Applied
from tierwright.control.problems import fought_over, not_corrected, problem_of
from tierwright.kube.errors import KubeError, Verdict
from tierwright.kube.resources import ref_of
from tierwright.kube.verbs import KubeClient
from tierwright.observe.managers import SCALER_MANAGER
from tierwright.observe.snapshot import ScaleView
from tierwright.observe.store import Store

_FIELDS: Final = ("spec.replicas",)


class ScaleWriter:
    """Applies replicas to workloads."""

    def __init__(self, client: KubeClient, store: Store, patience: Patience) -> None:
        self._client = client
        self._store = store
        self._patience = patience

    async def write(
        self, applied: Applied, scale: ScaleView | None, attempts: Attempts, now: datetime
    ) -> None:
        """Sets the replicas of the workload in ``applied``, if they are not as wanted; what came of it stands there."""
        live = applied.workload
        if live is None or scale is None or scale.wanted is None:
            return
        ref = ref_of(live)
        if not scaler.needs_scaling(live, scale.wanted):
            attempts.settled(ref)
            return
        digest, oldest = str(scale.wanted), now - self._patience.refused
        if refusal := attempts.standing_refusal(ref, digest, oldest):
            applied.problems.append(refusal)
            return
        if attempts.is_changed_back(ref, digest, _FIELDS, now - self._patience.uncorrected):
            applied.problems.append(not_corrected(ref, _FIELDS))
            return
        if attempts.is_fought_over(ref, digest, oldest):
            applied.problems.append(fought_over(ref, _FIELDS))
            return
        manifest = scaler.scale_manifest(live, scale.wanted)
        try:
            applied.workload = await self._client.apply(manifest, manager=SCALER_MANAGER)
        except KubeError as error:
            if error.verdict is not Verdict.RETRY:
                final = error.verdict is Verdict.TERMINAL
                attempts.refused(ref, digest, problem_of(ref, error), now, final=final)
            applied.note(ref, error)
            return
        self._store.put(ref.kind, applied.workload)
        is_undone = scaler.needs_scaling(applied.workload, scale.wanted)
        attempts.accepted(ref, digest, _FIELDS if is_undone else (), now)
        if is_undone:
            applied.problems.append(not_corrected(ref, _FIELDS))
