"""Writes every generated file of the repository, or says which of them differ from their source.

``python -m dev.generate`` writes, ``python -m dev.generate --check`` compares and exits 1 on a difference.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dev import chart
from dev.dashboard import dashboard_json
from tierwright.api.crd import crd_yaml
from tierwright.api.reference import reference_page
from tierwright.api.runbook import runbook_page

ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Generated:
    """One generated file: its path from the repository's root, and what makes its text."""

    path: str
    text: Callable[[], str]


# In order: a file may be made from those above it. The chart renders its copy of the CRD and the install manifest.
FILES: Final[tuple[Generated, ...]] = (
    Generated("crds/tierwright.dev_inferencetiers.yaml", crd_yaml),
    Generated("docs/reference/inferencetier.md", reference_page),
    Generated("docs/runbook.md", runbook_page),
    Generated("charts/tierwright/templates/crd-inferencetiers.yaml", chart.crd_template),
    Generated("charts/tierwright/files/rbac.yaml", chart.rbac_data),
    Generated("charts/tierwright/files/dashboard.json", dashboard_json),
    Generated("manifests/install.yaml", chart.install_manifest),
)


def write(files: Iterable[Generated], root: Path) -> list[str]:
    """Write what differs; returns the paths that were written."""
    written = []
    for file in files:
        text = file.text()
        if _current(root / file.path) != text:
            (root / file.path).parent.mkdir(parents=True, exist_ok=True)
            (root / file.path).write_text(text, encoding="utf-8")
            written.append(file.path)
    return written


def differing(files: Iterable[Generated], root: Path) -> list[str]:
    """The paths whose text is not what their source makes today; a missing file differs."""
    return [file.path for file in files if _current(root / file.path) != file.text()]


def _current(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m dev.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 when a file differs")
    if not parser.parse_args(arguments).check:
        for path in write(FILES, ROOT):
            print(f"wrote {path}")
        return 0
    if stale := differing(FILES, ROOT):
        print("These files differ from their source; run `make generate` and commit them:", file=sys.stderr)
        print("\n".join(f"  {path}" for path in stale), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
