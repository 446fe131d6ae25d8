#!/usr/bin/env bash
# Makes .venv-bench-autoscale, where the autoscaling benchmark's referee runs; with `dynamo`, what NVIDIA Dynamo's planner needs too.
set -euo pipefail
cd "$(dirname "$0")/.."
env=.venv-bench-autoscale
python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null || ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "The benchmark needs Python 3.11 or newer; set PYTHON=/path/to/python3." >&2
  exit 1
fi
install() { # requirement file, further arguments of pip
  echo "== $env: requirements/$1"
  "$env/bin/python" -m dev.watch --pip "$env" "$env/bin/python" -m pip install --disable-pip-version-check \
    --progress-bar off --only-binary :all: --require-hashes "${@:2}" -r "requirements/$1"
}
[ -x "$env/bin/python" ] || "$python" -m venv "$env"
stale() { [ ! "$env/.$1" -nt "requirements/$1" ]; }
if stale bench-autoscale.txt; then
  install bench-autoscale.txt
  touch "$env/.bench-autoscale.txt"
fi
if [ "${1:-}" = dynamo ] && stale bench-dynamo.txt; then
  install bench-dynamo.txt
  # Without dependencies: what it asks for beyond bench-dynamo.txt is for serving.
  install bench-dynamo-wheel.txt --no-deps
  touch "$env/.bench-dynamo.txt"
fi
