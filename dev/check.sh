#!/usr/bin/env bash
# The quick checks: format, lint, types, import contracts, file length, generated files, unit tests.
# With --coverage, as `make test` runs it, the pure packages must be covered whole; measuring that doubles the tests' time.
set -euo pipefail
cd "$(dirname "$0")/.."
step() { printf '== %s\n' "$1"; }
step format; ruff format --check -q .
step lint; ruff check -q .
# Kept outside the clone: mypy goes by the files' contents, so that a fresh clone need not begin anew.
export MYPY_CACHE_DIR=${TIERWRIGHT_CACHE:-$HOME/.cache/tierwright}/mypy
# Beside the other steps, since from an empty cache it takes half as long as the unit tests.
found=$(mktemp)
mypy --no-error-summary operator/tierwright dev tests bench/autoscale > "$found" 2>&1 &
types=$!
trap 'kill "$types" 2>/dev/null || true; rm -f "$found"' EXIT
step imports
PYTHONPATH=operator python -m dev.watch imports lint-imports
# The worker's contracts need nothing of its own environment, which takes minutes to make; its types and tests do.
PYTHONPATH=worker python -m dev.watch imports lint-imports --config worker/pyproject.toml
step 'file length'; python -m dev.file_length
step 'generated files'; python -m dev.generate --check
step 'unit tests'
if [ "${1:-}" != --coverage ]; then
  python -m pytest -q -n 2 tests/unit
else
  python -m pytest -q -n 2 --cov --cov-report= tests/unit
  step 'coverage of the pure packages'
  python -m coverage report --fail-under=100 --skip-covered --include='operator/tierwright/api/*,operator/tierwright/desired/*,operator/tierwright/engines/*,operator/tierwright/hardware/*,operator/tierwright/capacity/*,operator/tierwright/planning/*'
fi
step types; wait "$types" || { cat "$found"; exit 1; }
