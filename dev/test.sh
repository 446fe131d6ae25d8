#!/usr/bin/env bash
# All tests, or the parts that are named: check, bench, worker, integration, e2e. What is quick and brings little comes first.
set -euo pipefail
cd "$(dirname "$0")/.."
part() { printf '== %s\n' "$1"; }

check() { bash dev/check.sh --coverage; }

bench() {
  part 'the autoscaling benchmark: tests with its referee, quick mode'
  bash dev/test_bench.sh
}

worker() {
  part 'the JAX worker'
  bash dev/test_worker.sh
}

prepare() {
  [ -z "${prepared:-}" ] || return 0
  part 'what the cluster tests need'
  python -m dev.cluster prepare
  prepared=yes
}

integration() {
  prepare
  part 'integration tests: control plane and kwok'
  python -m pytest -q -n 2 --dist loadfile --durations=10 tests/integration
}

e2e() {
  prepare
  if python -m dev.cluster can-run-nodes; then
    part 'end-to-end tests: real nodes'
    python -m pytest --durations=10 tests/e2e
  else
    part 'end-to-end tests are not run here: real nodes need what is named above'
  fi
}

[ $# -gt 0 ] || set -- check bench worker integration e2e
for name in "$@"; do
  case $name in
    check | bench | worker | integration | e2e) "$name" ;;
    *) echo "dev/test.sh: no part '$name'; there are check, bench, worker, integration and e2e" >&2; exit 2 ;;
  esac
done
