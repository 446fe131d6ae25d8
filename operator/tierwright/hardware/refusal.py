"""Decides how a tier is refused that is well formed but cannot be built: one reason, one field path, what to do."""

from dataclasses import dataclass

from tierwright.api.conditions import Reason


@dataclass(frozen=True)
class Refusal:
    """Why no children can be made of a tier; terminal until its spec changes."""

    reason: Reason
    path: str
    """Field path, such as ``spec.engine.type``."""
    message: str
    """What is wrong and what to do, for a person."""


class RefusedError(Exception):
    """Carries a refusal from where it is found up to ``desired_bundle``, which returns it."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.path}: {refusal.message}")
        self.refusal = refusal


def unsupported(path: str, message: str) -> RefusedError:
    """The error for what this release does not build."""
    return RefusedError(Refusal(Reason.UNSUPPORTED, path, message))


def invalid(path: str, message: str) -> RefusedError:
    """The error for values that contradict each other or mean nothing here."""
    return RefusedError(Refusal(Reason.INVALID_SPEC, path, message))
