"""Sets up logging: one line per record, as text or JSON, with the tier's namespace and name while one is reconciled."""

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TextIO

_tier: ContextVar[tuple[str, str] | None] = ContextVar("tier", default=None)
_QUIET_LOGGERS: Final = ("kopf", "kubernetes", "aiohttp", "asyncio")
_RETRY: Final = "Request attempt #"
"""kopf's line, at level ERROR, for each try of each of its watches; what comes of them is told once by the operator."""


@contextmanager
def about_tier(namespace: str, name: str) -> Iterator[None]:
    """All log records made inside are about this tier."""
    token = _tier.set((namespace, name))
    try:
        yield
    finally:
        _tier.reset(token)


class _TierFilter(logging.Filter):
    """Notes on each record which tier it is about."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.tier = _tier.get()
        return True


class _RetryFilter(logging.Filter):
    """Leaves out tries that are followed by others."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.name.startswith("kopf.") and record.getMessage().startswith(_RETRY))


class TextFormatter(logging.Formatter):
    """Time, level, logger, tier, message; a traceback follows on lines of its own."""

    converter = staticmethod(time.gmtime)
    default_msec_format = "%s.%03dZ"
    default_time_format = "%Y-%m-%dT%H:%M:%S"

    def __init__(self) -> None:
        """Set the layout."""
        super().__init__("%(asctime)s %(levelname)-7s %(name)s%(where)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Lay out one record."""
        tier: tuple[str, str] | None = getattr(record, "tier", None)
        record.where = f" [{tier[0]}/{tier[1]}]" if tier else ""
        return super().format(record)


class JsonFormatter(logging.Formatter):
    """One JSON object per record: time, level, logger, message, namespace and name of the tier, error."""

    converter = staticmethod(time.gmtime)
    default_msec_format = "%s.%03dZ"
    default_time_format = "%Y-%m-%dT%H:%M:%S"

    def format(self, record: logging.LogRecord) -> str:
        """Lay out one record."""
        line: dict[str, object] = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        tier: tuple[str, str] | None = getattr(record, "tier", None)
        if tier:
            line["namespace"], line["name"] = tier
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure(level: str, log_format: str, stream: TextIO | None = None) -> None:
    """Sends all logging to ``stream`` (stderr) as ``text`` or ``json``; libraries speak from WARNING up unless at DEBUG."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    handler.addFilter(_TierFilter())
    if level != "DEBUG":
        handler.addFilter(_RetryFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.DEBUG if level == "DEBUG" else logging.WARNING)
