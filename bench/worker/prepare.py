"""Does beforehand what takes long and is not measured: other engines, kernels, converted weights, compiled programs."""

import subprocess
import sys

from bench.worker.engines import llamacpp_weights
from bench.worker.environments import LLAMACPP, VLLM, python_of
from bench.worker.servers import pairs
from bench.worker.setup import OWN_CONTEXT, Setup, model_flags, own_environment

_DRAFTS = 8


def prepare(setup: Setup) -> None:
    """Everything; what is there already is left as it is.

    Raises:
        subprocess.CalledProcessError: a program ended with an error; it has said why.
    """
    for environment in (VLLM, LLAMACPP):
        python_of(environment, setup.cache, setup.say)
    for slots, drafts, context in shapes(setup):
        setup.say(f"compiling for {slots} slots, {drafts} drafted tokens, a context of {context}")
        flags = {
            "--max-num-seqs": slots,
            "--speculative-tokens": drafts,
            "--max-model-len": context,
        }
        command = [sys.executable, "-m", "tierwright_worker", "compile", *model_flags(setup), *pairs(flags)]
        # Its log tells of each program; what is wrong comes last.
        subprocess.run(command, env=own_environment(), check=True, stderr=subprocess.DEVNULL)
    if setup.model.suffix == ".gguf":
        llamacpp_weights(setup)


def shapes(setup: Setup) -> list[tuple[int, int, int]]:
    """Slots, drafted tokens and context of every worker that is measured."""
    own = [(1, _DRAFTS, OWN_CONTEXT), (1, 0, OWN_CONTEXT), (8, 0, OWN_CONTEXT)]
    return [*own, (1, 0, setup.context), (setup.streams, 0, setup.context)]
