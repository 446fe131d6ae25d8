"""Compares versions of Kubernetes tools: what a program calls itself, and whether that is near or new enough."""

import re
from typing import NamedTuple


class Version(NamedTuple):
    """Major, minor and patch; ordered as one expects. Pre-release and build words are left out."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        """Without a leading v: `1.36.3`."""
        return f"{self.major}.{self.minor}.{self.patch}"


def parse(text: str) -> Version | None:
    """The first version in `text` (`v1.36.3`, `go1.26.8`, `Kubernetes v1.32.4-dispatcher`), None without one."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return Version(int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def within_one_minor(client: Version, server: Version) -> bool:
    """Kubernetes' version skew policy for kubectl: the same major, at most one minor older or newer."""
    return client.major == server.major and abs(client.minor - server.minor) <= 1
