#!/usr/bin/env bash
# The worker's checks and tests, in the worker's own environment: format, lint, types, import contracts, tests.
# Arguments go to pytest: dev/test_worker.sh -k speculation
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv-worker/bin
[ .venv-worker/.stamp -nt requirements/worker-test.txt ] && [ .venv-worker/.stamp -nt requirements/worker-model.txt ] || bash dev/worker_venv.sh
bash dev/worker_venv.sh command
kernels=worker/tierwright_worker/native
if command -v "${CXX:-g++}" >/dev/null && [ -n "$(find "$kernels" -name '*.cpp' -newer "$kernels/_kernels.so" 2>/dev/null || echo none)" ]; then
  bash dev/worker_venv.sh kernels
fi
step() { printf '== %s\n' "$1"; }
step format; "$bin/ruff" format --check -q worker tests/worker dev/worker bench/worker
step lint; "$bin/ruff" check -q worker tests/worker dev/worker bench/worker
step types; "$bin/python" -m dev.watch types "$bin/mypy" --config-file worker/pyproject.toml --no-error-summary worker/tierwright_worker tests/worker dev/worker bench/worker
step imports; PYTHONPATH=worker "$bin/python" -m dev.watch imports "$bin/lint-imports" --config worker/pyproject.toml
step tests
PYTHONPATH=worker:. exec "$bin/python" -m pytest -c worker/pyproject.toml --rootdir . --confcutdir tests/worker "${@:-tests/worker}"
