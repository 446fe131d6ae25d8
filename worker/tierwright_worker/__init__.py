"""The JAX worker: one model, served from static-shape executables on Inferentia2, GPU or CPU.

Layers, top to bottom; a layer imports those below it and nothing above (import-linter holds this in worker/pyproject.toml):

    cli         what a person or a pod calls: serve, compile, fetch, bench
    server      HTTP: requests in, events out; knows no array
    neuron      what a Neuron device refuses, read off the lowered program
    engine      loop.py     one iteration: ask the policies, run the device, hand out tokens
                executor.py owns weights, slot cache and executables; the only file that runs the device
                policies/   pure decisions over engine/interface.py: scheduling, drafting, acceptance, sampling, prompt cache
    loading     a path to a model in memory; GGUF files are converted once
    sources     hubs, buckets and folders to a folder on a volume: resumed, checked, whole or not at all
    tokenizer   text to ids and back; chat templates in a sandbox
    weights     folders and GGUF files to one pytree of host arrays
    models      configuration and forward pass of Llama-class decoders
    errors      every way to fail, with its exit status

How a token is made. Requests wait in a bounded queue. Before each iteration `policies` decides on values alone: who gets
a free slot, which slot prefills its next chunk, how many tokens are drafted for each decoding slot. The executor then runs
one prefill executable, one step executable, or both: shapes are chosen from fixed lists (slots x step rows x length
bucket; prefill bucket x length bucket), all compiled before the worker calls itself ready. A step has R rows for each
slot: the last accepted token and up to R-1 drafted ones. Its logits come back to the host, where acceptance (exact for
greedy, rejection sampling otherwise) keeps the right prefix; rejected rows need no undo, for their cache positions are
overwritten before they are ever attended to.

Why outputs do not change with the speed. In f32 every row of a step is computed by the same sequence of roundings
whatever the number of rows, slots or the length bucket is ("row-exact"): see models/exact.py for how, and
docs/decisions/row-exact-steps.md for why. The executor proves it on the loaded weights at warm-up, and falls back to one
step shape where the proof fails.
"""

__version__ = "0.1.0"
