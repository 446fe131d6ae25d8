"""Reads the JAX worker's own command line without its packages: they need JAX, which the operator's environment has not."""

import argparse
import importlib
import sys
from pathlib import Path
from types import ModuleType

WORKER = Path(__file__).parents[2] / "worker"
_NAME = "tierwright_worker"
_PACKAGES = (_NAME, f"{_NAME}.cli", f"{_NAME}.neuron")


def worker_parser() -> argparse.ArgumentParser:
    """The parser of ``tierwright-worker``; the worker's packages are not imported, the files it is made from are."""
    before = {name: module for name, module in sys.modules.items() if name.split(".")[0] == _NAME}
    for name in before:
        del sys.modules[name]
    try:
        for name in _PACKAGES:
            package = ModuleType(name)
            package.__path__ = [str(WORKER / name.replace(".", "/"))]
            sys.modules[name] = package
        sys.modules[_NAME].__dict__["__version__"] = "read without its package"
        parser: argparse.ArgumentParser = importlib.import_module(f"{_NAME}.cli.flags").parser()
        return parser
    finally:
        for name in [each for each in sys.modules if each.split(".")[0] == _NAME]:
            del sys.modules[name]
        sys.modules.update(before)


def flags_of(command: str) -> set[str]:
    """Every flag of one of the worker's commands."""
    for action in worker_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return {name for each in action.choices[command]._actions for name in each.option_strings}
    raise LookupError(command)
