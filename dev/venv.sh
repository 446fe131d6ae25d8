#!/usr/bin/env bash
# Makes .venv from the hash-locked requirements; says plainly what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
  echo "Tierwright needs Python 3.11 or newer, and '$python' was not found. Set PYTHON=/path/to/python3." >&2
  exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "Tierwright needs Python 3.11 or newer; '$python' is $("$python" -V 2>&1). Set PYTHON=/path/to/a/newer/python3." >&2
  exit 1
fi
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
  echo "Python's venv module is missing. On Debian and Ubuntu: apt-get install -y python3-venv" >&2
  exit 1
fi
echo "== virtual environment: $("$python" -V 2>&1), requirements/dev.txt"
[ -x .venv/bin/python ] || "$python" -m venv .venv
watched() { .venv/bin/python -m dev.watch --pip "$@"; }
pip=(.venv/bin/python -m pip install --disable-pip-version-check --progress-bar off)
watched 'virtual environment' "${pip[@]}" --require-hashes -r requirements/dev.txt
watched 'virtual environment' "${pip[@]}" --no-deps --no-build-isolation --editable .
touch .venv/.stamp
