#!/usr/bin/env bash
# The autoscaling benchmark's tests that need its referee, in its own environment, then the benchmark's quick mode with its table.
set -euo pipefail
cd "$(dirname "$0")/.."
bash dev/bench_venv.sh
export PYTHONPATH=operator:. DYN_LOG=error
python=.venv-bench-autoscale/bin/python
"$python" -m pytest -q -c tests/referee/pytest.ini --rootdir . --confcutdir tests/referee -p no:cacheprovider tests/referee
"$python" -m bench.autoscale.quick
