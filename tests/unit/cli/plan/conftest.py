"""A tier file and a trace."""

from tests.support.plan_command import file, trace

__all__ = ["file", "trace"]
