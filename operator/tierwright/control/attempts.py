"""Remembers what came of earlier writes, so that what was refused, or is undone each time, is not repeated at once."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from tierwright.kube.resources import ObjectRef
from tierwright.observe.snapshot import Problem

_MOST_IN_A_ROW: Final = 6
_ROW: Final = timedelta(minutes=1)
"""Content that had to be written this often within this time is being fought over, by whoever undoes it later."""


@dataclass(frozen=True)
class Patience:
    """How long a write is not repeated that the server refused, or that something else undoes at once."""

    refused: timedelta
    uncorrected: timedelta


@dataclass
class Row:
    """When the same content was written lately, each time anew since it did not last."""

    digest: str = ""
    times: tuple[datetime, ...] = ()

    def note(self, digest: str, now: datetime) -> None:
        """Remembers a write; one of other content begins a new row."""
        times = self.times if self.digest == digest else ()
        self.digest, self.times = digest, (*times, now)[-_MOST_IN_A_ROW:]

    def is_fought_over(self, digest: str, oldest: datetime) -> bool:
        """Whether writes of this content never lasted, the last of them after ``oldest``."""
        full = len(self.times) == _MOST_IN_A_ROW and self.times[-1] - self.times[0] < _ROW
        return self.digest == digest and full and self.times[-1] > oldest


@dataclass(frozen=True)
class _Refusal:
    """A write that the API server refused: of what, when, and whether only other content can help."""

    digest: str
    at: datetime
    problem: Problem
    is_final: bool


@dataclass(frozen=True)
class _Uncorrected:
    """Fields that the API server did not take over from a write: of what, and when."""

    digest: str
    fields: tuple[str, ...]
    at: datetime


@dataclass
class Attempts:
    """What is remembered of the writes of one field manager to one tier's objects; losing it costs one write each.

    ``digest`` stands for the content of a write: it changes with any field of it.
    """

    refusals: dict[ObjectRef, _Refusal] = field(default_factory=dict)
    uncorrected: dict[ObjectRef, _Uncorrected] = field(default_factory=dict)
    rows: dict[ObjectRef, Row] = field(default_factory=dict)

    def keep_only(self, refs: Collection[ObjectRef]) -> None:
        """Forgets all other objects: a name that holds a hash of its content would never come up again."""
        for known in (self.refusals, self.uncorrected, self.rows):
            for ref in known.keys() - refs:
                del known[ref]

    def settled(self, ref: ObjectRef) -> None:
        """The object is as desired: what was refused or undone before says nothing any more."""
        self.refusals.pop(ref, None)
        self.uncorrected.pop(ref, None)

    def refused(self, ref: ObjectRef, digest: str, problem: Problem, now: datetime, *, final: bool) -> None:
        """The server refused the write; ``final`` when it will do so until the content changes."""
        self.refusals[ref] = _Refusal(digest, now, problem, final)

    def standing_refusal(self, ref: ObjectRef, digest: str, oldest: datetime) -> Problem | None:
        """Why the same write would be refused again: it was, finally or after ``oldest``."""
        known = self.refusals.get(ref)
        if known is None or known.digest != digest or not (known.is_final or known.at > oldest):
            return None
        return known.problem

    def accepted(self, ref: ObjectRef, digest: str, left: tuple[str, ...], now: datetime) -> None:
        """The server took the write, and afterwards the fields ``left`` still differed."""
        self.refusals.pop(ref, None)
        self.rows.setdefault(ref, Row()).note(digest, now)
        if left:
            self.uncorrected[ref] = _Uncorrected(digest, left, now)
        else:
            self.uncorrected.pop(ref, None)

    def is_changed_back(self, ref: ObjectRef, digest: str, fields: tuple[str, ...], oldest: datetime) -> bool:
        """Whether these fields of this content were changed back within the very write, after ``oldest``."""
        known = self.uncorrected.get(ref)
        return known is not None and (known.digest, known.fields) == (digest, fields) and known.at > oldest

    def is_fought_over(self, ref: ObjectRef, digest: str, oldest: datetime) -> bool:
        """Whether writes of this content never lasted, the last of them after ``oldest``."""
        row = self.rows.get(ref)
        return row is not None and row.is_fought_over(digest, oldest)
