"""`python -m dev.watch [--pip] TITLE COMMAND...` runs a long command, shows that it lives, and its output only if it fails.

With `--pip`, of pip's many lines only those are shown that say what it fetches and installs.
On a terminal one line with the command's last words is redrawn, in a log one appears now and then. The exit status is
the command's.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from dev.cluster.progress import following

_PIP_WORKS: Final = ("Collecting", "Downloading", "Installing")


def main(argv: list[str]) -> int:
    """Run it; returns its exit status, 2 for a wrong command line, 130 when it was interrupted."""
    among = _PIP_WORKS if argv[:1] == ["--pip"] else ()
    argv = argv[1:] if among else argv
    if len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    title, *command = argv
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "output"
        try:
            with log.open("wb") as output, following(title, log, among=among):
                done = subprocess.run(command, stdout=output, stderr=output, check=False)
        except KeyboardInterrupt:
            return 130
        except OSError as error:
            print(f"{title}: {error}", file=sys.stderr)
            return 127
        if done.returncode:
            sys.stdout.write(log.read_text(errors="replace"))
            print(f"{title}: `{' '.join(command[:4])} ...` failed with exit status {done.returncode}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
