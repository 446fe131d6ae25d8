"""llama.cpp's HTTP server out of the wheel xllamacpp; runs in that wheel's environment: MODEL PORT SLOTS CONTEXT THREADS."""

import sys
import threading

import xllamacpp


def main(model: str, port: int, slots: int, context: int, threads: int) -> None:
    """Serve until ended. `context` is that of one slot; llama.cpp divides its own among the slots."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.cache_prompt = False
    params.n_parallel = slots
    params.n_ctx = slots * context
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    path, *numbers = sys.argv[1:]
    main(path, *map(int, numbers))
