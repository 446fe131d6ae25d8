"""CPU that one metrics page costs, ours beside prometheus_client's, in one run: `python -m bench.autoscale.parser_cpu [PAGE]`.

Without a file the page is the engine simulator's, which has vLLM's families, labels and buckets.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dev.engine_sim.cli import parse_command_line
from dev.engine_sim.config import build_config
from dev.engine_sim.http_metrics import HttpMetrics
from dev.engine_sim.metrics import EngineMetrics
from dev.engine_sim.settings import Settings
from tierwright.observe.metrics import parse

ROUNDS = 30


def simulated_page() -> str:
    """A page of the engine simulator."""
    metrics = EngineMetrics(build_config(parse_command_line(["m"]), Settings()))
    http = HttpMetrics(metrics.registry)
    http.request(
        method="POST", handler="/v1/completions", status=200, seconds=1.0, request_bytes=10, response_bytes=10
    )
    return generate_latest(metrics.registry).decode()


def cpu(work: Callable[[], object], times: int) -> float:
    """CPU seconds of one call, the least of `times`: whatever else runs only adds to it."""
    seconds = []
    for _ in range(times):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def main() -> None:
    """Print both and their ratio; the two take turns, so that a busy machine slows both."""
    text = Path(sys.argv[1]).read_text("utf-8") if len(sys.argv) > 1 else simulated_page()
    if parse(text).first_token is None:
        raise SystemExit("the page has no latency histogram: not an engine's page")
    gc.disable()
    pairs = [
        (cpu(lambda: parse(text), 5), cpu(lambda: list(text_string_to_metric_families(text)), 2))
        for _ in range(ROUNDS)
    ]
    ours = statistics.median(one for one, _ in pairs)
    theirs = statistics.median(other for _, other in pairs)
    ratio = statistics.median(other / one for one, other in pairs)
    print(
        f"page of {len(text):,} characters: {ours * 1e3:.3f} ms ours, {theirs * 1e3:.3f} ms prometheus_client, {ratio:.1f} x less"
    )


if __name__ == "__main__":
    main()
