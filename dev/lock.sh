#!/usr/bin/env bash
# Locks requirements/*.in to requirements/*.txt: exact versions and hashes for every platform, no index address.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$(mktemp -d); trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/pip" install --quiet uv
for name in operator dev engine-sim tools worker worker-cuda worker-neuron worker-test worker-parity worker-model bench-vllm bench-vllm-engine bench-llamacpp bench-autoscale bench-dynamo bench-dynamo-wheel; do
  deps=(); [[ "$name" =~ ^(tools|worker-model|bench-vllm-engine|bench-llamacpp|bench-dynamo-wheel)$ ]] && deps=(--no-deps)
  "$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-emit-index-url \
    --no-emit-find-links --custom-compile-command 'make lock' "${deps[@]}" "requirements/$name.in" -o "requirements/$name.txt"
done
