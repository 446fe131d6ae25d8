"""Keeps the tiers' cache volumes between demos: a hostPath volume for each tier, in the cache folder of this machine.

In a real cluster a retained claim does this: it outlives the pod, the tier and the node. The demo's cluster is thrown away
each time, and its volumes with it; without this every demo would convert the weights and compile the programs anew.
"""

import shutil
import time
from pathlib import Path
from typing import Any, Final

import yaml

from dev.cluster import paths
from dev.demo.kubectl import Tools

_KEPT_PROGRAMS: Final = 6
_UNUSED_S: Final = 24 * 3600.0


def prepare(tools: Tools, speeds: tuple[str, ...]) -> None:
    """Offer each tier the volume of its last demo. The tier asks for it by the class ``demo-<speed>``."""
    for speed in speeds:
        folder = folder_of(speed)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)  # the engine runs as a user of its own
        forget_old_programs(folder / "jax" / "programs", time.time())
        tools.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(volume(speed, folder)))


def folder_of(speed: str) -> Path:
    """Where a tier's cache lies on this machine."""
    return paths.cache_dir() / "demo-volumes" / speed


def volume(speed: str, folder: Path) -> dict[str, Any]:
    """The PersistentVolume that only the tier of this speed can bind."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"demo-cache-{speed}"},
        "spec": {
            "capacity": {"storage": "4Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": f"demo-{speed}",
            "hostPath": {"path": str(folder), "type": "Directory"},
        },
    }


def forget_old_programs(folder: Path, now: float) -> None:
    """Remove programs of earlier versions of the worker: all but the newest, once they are a day old."""
    if not folder.is_dir():
        return
    made = sorted(folder.iterdir(), key=lambda each: -each.stat().st_mtime)
    for old in made[_KEPT_PROGRAMS:]:
        if now - old.stat().st_mtime > _UNUSED_S:
            shutil.rmtree(old, ignore_errors=True)
