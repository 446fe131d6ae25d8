"""Refuses Python files that are too long to be read in one sitting: more than 500 lines."""

import sys
from pathlib import Path

LIMIT = 500
ROOTS = ("operator", "gateway", "worker", "dev", "bench", "tests")


def main() -> int:
    """Print each file above the limit; exit status 1 when there is one."""
    too_long = [
        (lines, path)
        for root in ROOTS
        for path in sorted(Path(root).rglob("*.py"))
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LIMIT
    ]
    for lines, path in too_long:
        print(f"{path}: {lines} lines, more than {LIMIT}; split it")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
