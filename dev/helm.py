"""Finds helm for the generators: the one that TIERWRIGHT_HELM names, else as dev.cluster finds it."""

import functools
import os

from dev.cluster import tools


@functools.cache
def find_helm() -> str:
    """Path of helm; downloads it once where the machine has none. Raises packages.PackageError when it cannot."""
    return os.environ.get("TIERWRIGHT_HELM") or str(tools.helm())
