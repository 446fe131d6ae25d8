"""Remembers what each ready pod told about how exact its answers are, and asks those that nobody else asks.

An engine finds it out once, at its start. Pods of tiers with objectives are read all the time; of the others each is asked
until it has told once, and no more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tierwright.control.autoscale_subjects import Subject
from tierwright.control.shown import share_text
from tierwright.engines.engine import HTTP_PORT
from tierwright.observe.metrics import Exactness
from tierwright.observe.readings import Scraped, Target
from tierwright.observe.snapshot import ExactnessView
from tierwright.observe.store import TierKey


@dataclass(frozen=True, slots=True)
class _Told:
    """Of one tier: what each ready pod told by its uid, None for one whose engine does not tell; and what is shown."""

    uid: str
    pods: Mapping[str, Exactness | None] = field(default_factory=dict)
    view: ExactnessView | None = None


class ExactnessByTier:
    """What is known of all tiers of the engine that tells."""

    def __init__(self) -> None:
        self._told: dict[TierKey, _Told] = {}

    def view(self, key: TierKey, uid: str) -> ExactnessView | None:
        """What is shown of the tier; None before a ready pod told, and of another tier of that name."""
        told = self._told.get(key)
        return None if told is None or told.uid != uid else told.view

    def unread(self, subjects: Iterable[Subject]) -> list[Target]:
        """The pods to ask beside those that are read anyway."""
        return [
            Target(pod.uid, pod.address, HTTP_PORT)
            for each in subjects
            if _tells(each) and not each.measured
            for pod in each.pods
            if pod.ready and pod.uid not in self._of(each).pods
        ]

    def hear(self, subjects: Iterable[Subject], scraped: Mapping[str, Scraped]) -> set[TierKey]:
        """Remember what was read; the tiers of which something else is shown now."""
        after: dict[TierKey, _Told] = {}
        changed = set()
        for each in subjects:
            if not _tells(each):
                continue
            before = self._of(each)
            pods = {
                pod.uid: now
                for pod in each.pods
                if pod.ready
                for known, now in (_latest(pod.uid, before, scraped),)
                if known
            }
            view = least(told for told in pods.values() if told is not None) or before.view
            after[each.key] = _Told(each.uid, pods, view)
            if view != before.view:
                changed.add(each.key)
        self._told = after
        return changed

    def _of(self, subject: Subject) -> _Told:
        told = self._told.get(subject.key)
        return told if told is not None and told.uid == subject.uid else _Told(subject.uid)


def least(told: Iterable[Exactness]) -> ExactnessView | None:
    """What holds of every one of them; None without any."""
    found = list(told)
    if not found:
        return None
    return ExactnessView(
        row_exact=all(each.row_exact for each in found),
        agreement=share_text(min(each.agreement for each in found)),
        lossy="; ".join(sorted({each.lossy for each in found if each.lossy})),
    )


def _tells(subject: Subject) -> bool:
    return subject.tier.spec.engine.type == "jax"


def _latest(uid: str, before: _Told, scraped: Mapping[str, Scraped]) -> tuple[bool, Exactness | None]:
    """Whether the pod ever told, and what it told last."""
    reading = scraped.get(uid)
    if reading is not None and reading.page is not None:
        return True, reading.page.exactness
    return uid in before.pods, before.pods.get(uid)
