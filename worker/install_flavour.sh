#!/bin/sh
# Installs the worker's locked requirements for one accelerator: install_flavour.sh cpu|cuda|neuron PYTHON
#
# PYTHON belongs to the environment that is filled; it needs no pip, the one of `python3` installs into it.
#
# The Neuron packages come from AWS's own index alone, which NEURON_INDEX names. Under their names the public index holds
# empty packages that anybody may have put there, so it is never asked for them: they are installed first, from the one
# index and without dependencies; what they depend on comes from the public index with their versions held fast.
set -eu
flavour=${1:?cpu, cuda or neuron} python=${2:?the Python of the environment}
requirements=$(dirname "$0")/../requirements
: "${NEURON_INDEX:=}" "${NEURON_PACKAGES:=jax-neuronx libneuronxla neuronx-cc}"
install() { python3 -m pip --python "$python" install --only-binary :all: "$@"; }

case $flavour in
  cpu) lock=worker ;;
  cuda) lock=worker-cuda ;;
  neuron)
    lock=worker-neuron
    if [ -z "$NEURON_INDEX" ]; then
      echo "The neuron flavour needs the address of AWS's package index: --build-arg NEURON_INDEX=..." >&2
      exit 64
    fi ;;
  *) echo "There is no flavour $flavour: cpu, cuda and neuron are built." >&2; exit 64 ;;
esac
install --require-hashes -r "${LOCK_FILE:-$requirements/$lock.txt}"
[ "$flavour" = neuron ] || exit 0

# Files of settings may name further indexes, so none is read here.
(
  export PIP_CONFIG_FILE=/dev/null PIP_INDEX_URL="$NEURON_INDEX" PIP_EXTRA_INDEX_URL=''
  # shellcheck disable=SC2086  # several words on purpose
  install --no-deps $NEURON_PACKAGES
)
held=$(mktemp)
python3 -m pip --python "$python" freeze > "$held"
# shellcheck disable=SC2086
install --constraint "$held" $NEURON_PACKAGES
rm -f "$held"
