"""Sends streamed requests to one address at the rate that a file tells, and writes down what each of them met.

Runs inside a pod, on the standard library alone: ``python3 -c SOURCE ADDRESS MODEL FOLDER MOST OUTPUT_TOKENS``. The rate
in requests per second stands in FOLDER/rate; each request that ends adds a line of JSON to FOLDER/results. After MOST
requests it sends none any more, and stays, so that the results can be read.
"""

import http.client
import json
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

AT_ONCE = 200
"""Requests in flight; a request beyond them is written down as one that was not sent."""
REACHABLE_WITHIN = 30.0
"""Seconds; after that the requests tell what is wrong."""
PROMPT = "Tell why every request that was accepted is answered to its end. "
LOCK = threading.Lock()


def ask(address: str, model: str, tokens: int) -> dict[str, Any]:
    """One request over a connection of its own: seconds to its first token and between tokens, or what went wrong."""
    began = time.time()
    times: list[float] = []
    connection = http.client.HTTPConnection(address, timeout=120)
    try:
        body = {"model": model, "prompt": PROMPT, "max_tokens": tokens, "temperature": 0, "stream": True}
        connection.request(
            "POST",
            "/v1/completions",
            json.dumps({**body, "ignore_eos": True}),
            {"Content-Type": "application/json"},
        )
        response = connection.getresponse()
        if response.status != 200:
            return {"at": began, "error": f"{response.status}: {response.read(200)!r}"}
        while line := response.readline():
            if line.startswith(b"data: {"):
                if b'"error"' in line:
                    return {"at": began, "error": line.decode(errors="replace")[:200]}
                times.append(time.time())
            elif line.startswith(b"data: [DONE]"):
                return {"at": began, "first": times[0] - began, "each": mean_gap(times), "tokens": len(times)}
        return {"at": began, "error": f"the stream ended after {len(times)} tokens"}
    except (OSError, http.client.HTTPException) as error:
        return {"at": began, "error": f"{type(error).__name__}: {error} after {len(times)} tokens"}
    finally:
        connection.close()


def mean_gap(times: list[float]) -> float:
    """Mean seconds between two tokens."""
    return (times[-1] - times[0]) / max(1, len(times) - 1)


def rate_of(folder: Path) -> float:
    """Requests per second that are asked for now; none before the file is there or while it is being written."""
    try:
        return float((folder / "rate").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0.0


def note(folder: Path, result: dict[str, Any]) -> None:
    """Add one result."""
    with LOCK, (folder / "results").open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")


def wait_until_reachable(address: str) -> None:
    """A node knows a Service's ready pods a moment after the API server does: only then is there something to measure."""
    host, _, port = address.rpartition(":")
    until = time.monotonic() + REACHABLE_WITHIN
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except OSError:
            if time.monotonic() > until:
                return
            time.sleep(0.1)
        else:
            return


def main(address: str, model: str, folder: Path, most: int, tokens: int) -> None:
    """Send at even distances, whatever becomes of the requests before."""
    wait_until_reachable(address)
    slots = threading.Semaphore(AT_ONCE)
    due = time.monotonic()

    def send() -> None:
        try:
            note(folder, ask(address, model, tokens))
        finally:
            slots.release()

    threads: list[threading.Thread] = []
    while len(threads) < most:
        rate = rate_of(folder)
        now = time.monotonic()
        if rate <= 0 or now < due:
            due = min(due, now + 1 / rate) if rate > 0 else now
            time.sleep(0.05 if rate <= 0 else min(0.05, max(0.0, due - now)))
            continue
        due = max(due + 1 / rate, now - 1)
        if not slots.acquire(blocking=False):
            note(folder, {"at": time.time(), "error": "too many requests in flight"})
            continue
        threads.append(threading.Thread(target=send))
        threads[-1].start()
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
