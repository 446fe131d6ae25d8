#!/usr/bin/env bash
# The quick checks: format, lint, types, import contracts, file length, generated files, unit tests with coverage of the pure packages.
set -euo pipefail
cd "$(dirname "$0")/.."
step() { printf '== %s\n' "$1"; }
step format; ruff format --check -q .
step lint; ruff check -q .
step types; python -m dev.watch types mypy --no-error-summary operator/tierwright dev tests bench/autoscale
step imports
PYTHONPATH=operator python -m dev.watch imports lint-imports
# The worker's contracts need nothing of its own environment, which takes minutes to make; its types and tests do.
PYTHONPATH=worker python -m dev.watch imports lint-imports --config worker/pyproject.toml
step 'file length'; python -m dev.file_length
step 'generated files'; python -m dev.generate --check
step 'unit tests'; python -m pytest -q -n 2 --cov --cov-report= tests/unit
step 'coverage of the pure packages'
python -m coverage report --fail-under=100 --skip-covered --include='operator/tierwright/api/*,operator/tierwright/desired/*,operator/tierwright/engines/*,operator/tierwright/hardware/*,operator/tierwright/capacity/*'
