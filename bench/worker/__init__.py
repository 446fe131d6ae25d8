"""`make bench-worker`: what the worker's fast gear is worth, and how the worker stands against other engines.

__main__.py         the command: which parts, in which order, where the results go
setup.py            model, caches and flags of a run
parts.py            the parts of a run, in their order
own.py              the worker alone: its gears, its steps, its start
engines.py          the worker beside vLLM and llama.cpp
profile.py          what a step and a prompt's chunk consist of, operation by operation
environments.py     installs the other engines, each into an environment of its own outside the repository
kernels.py          builds the worker's kernels where they are missing
prepare.py          does beforehand what takes long and is not measured
servers.py          starts an engine's server and ends it again
llamacpp_server.py  llama.cpp's server; runs in its own environment
fresh_prompts.py    prompts that no engine has seen before
client.py           one stream, several at once, one long prompt: tokens per second as a client sees them
roofline.py         what the machine could do at best
machine.py          what machine it is, and how much of it others used meanwhile
results.py          bench/results/worker.json, written after each part
page.py             the tables of docs/benchmarks/worker.md
profile_page.py     of these, the one of operations
markdown.py         how a table is written
operations.py       tells a program's operations by what they compute
gguf_f32.py         a GGUF file with all its weights in f32, so that engines compute with the same numbers
"""
