"""The command line: a module or a package for each command, and what they share."""

from tierwright.cli.commands import main

__all__ = ["main"]
