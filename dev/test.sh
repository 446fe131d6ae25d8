#!/usr/bin/env bash
# All tests: the quick checks, then a control plane with kwok, then one pass on real nodes.
set -euo pipefail
cd "$(dirname "$0")/.."
bash dev/check.sh
echo '== the JAX worker'
bash dev/test_worker.sh
echo '== what the cluster tests need'
python -m dev.cluster prepare
echo '== integration tests: control plane and kwok'
python -m pytest -q -n 2 --dist loadfile --durations=10 tests/integration
if python -m dev.cluster can-run-nodes; then
  echo '== end-to-end tests: real nodes'
  python -m pytest -q --durations=10 tests/e2e
else
  echo '== end-to-end tests are not run here: real nodes need what is named above'
fi
