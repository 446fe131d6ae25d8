"""Runs a policy in the referee, NVIDIA Dynamo's engine replay: its engines, its clock and its verdict on each request.

Needs ai-dynamo-runtime (requirements/bench-autoscale.txt, an environment of its own). `bridge` is what stands between the two.
"""

import csv
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np  # type: ignore[import-not-found, unused-ignore]
from dynamo._core import MockEngineArgs, run_mocker_trace_replay  # type: ignore[import-not-found, unused-ignore]

from bench.autoscale.bridge import Bridge
from bench.autoscale.hardware import ENGINES, Engine
from bench.autoscale.policy import Policy
from bench.autoscale.scrape import NoisyPages, Scraped, Scraping
from tierwright.planning.engine import Request
from tierwright.planning.fleet import Outcome, Run

BLOCK = 512
"""Prompt tokens per hash of the replay's traces."""


@dataclass(frozen=True, slots=True)
class Latency:
    """One request as the referee served it; seconds from its arrival, and per output token after the first."""

    at: float
    ttft: float
    tpot: float | None
    completed: bool


def referee(
    requests: Sequence[Request],
    policy: Policy,
    run: Run,
    tables: Path,
    *,
    target: float = 0.99,
    scraping: Scraping = Scraping(),  # noqa: B008 - frozen
    gauges_only: bool = False,
) -> Outcome:
    """Replay the requests in the referee; a request counts from `score_from` on, and one that never ended is a miss.

    For a policy that reads nothing but gauges and counts, a callback a second is enough, which saves a third of the time.
    """
    seen = Scraped(policy, scraping, run.seed)
    bridge = Bridge(seen, run, requests, NoisyPages(scraping, run.seed, steps=False), gauges_only)
    with TemporaryDirectory() as folder:
        _replay(requests, run, tables, bridge, Path(folder))
        _judge(bridge.outcome, Path(folder) / "requests.jsonl", requests, run, target)
    return bridge.outcome


def latencies(requests: Sequence[Request], run: Run, tables: Path) -> list[Latency]:
    """Each request's latencies on a fixed fleet of `run.initial` replicas, in order of arrival."""
    with TemporaryDirectory() as folder:
        _replay(requests, run, tables, None, Path(folder))
        found = list(_report(Path(folder) / "requests.jsonl", requests[0].at))
    return sorted(found, key=lambda each: each.at)


def _replay(requests: Sequence[Request], run: Run, tables: Path, bridge: Bridge | None, folder: Path) -> None:
    _write_trace(folder / "trace.jsonl", requests)
    _write_profile(folder / "profile.npz", tables, ENGINES[run.hardware.name])
    settings = MockEngineArgs(
        engine_type="vllm",
        num_gpu_blocks=run.hardware.kv_blocks,
        block_size=run.hardware.block_size,
        max_num_seqs=run.sequences,
        max_num_batched_tokens=run.chunk,
        startup_time=bridge.startup if bridge else run.cold_start,
        planner_profile_data=str(folder / "profile.npz"),
    )
    run_mocker_trace_replay(
        [str(folder / "trace.jsonl")],
        extra_engine_args=settings,
        num_workers=run.initial,
        trace_block_size=BLOCK,
        sla_ttft_ms=run.ttft * 1000,
        sla_itl_ms=run.tpot * 1000,
        scaling_policy=bridge,
        report_jsonl_path=str(folder / "requests.jsonl"),
    )


def _report(path: Path, begin: float) -> list[Latency]:
    """Each ended request. The replay counts time from the first arrival."""
    found = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            done = row["terminal_status"] == "completed"
            per_token = row["itl_ms"]
            found.append(
                Latency(
                    begin + row["arrival_time_ms"] / 1000,
                    row["ttft_ms"] / 1000 if done else float("inf"),
                    None if per_token is None else per_token / 1000,
                    done,
                )
            )
    return found


def _judge(outcome: Outcome, report: Path, requests: Sequence[Request], run: Run, target: float) -> None:
    for request in requests:
        if request.at >= run.score_from:
            outcome.requests += 1
            minute = outcome.by_minute.setdefault(int(request.at // 60), [0, 0])
            minute[0] += 1
            minute[1] += 1  # a miss until the report says otherwise
    begin = requests[0].at
    met = 0
    for each in _report(report, begin):
        if each.at < run.score_from - 5e-4:  # the replay's clock has whole milliseconds
            continue
        late = each.ttft > run.ttft
        slow = each.tpot is not None and each.tpot > run.tpot
        outcome.first_token_misses += late
        outcome.per_token_misses += slow
        minute = outcome.by_minute.get(int((each.at + 5e-4) // 60), [0, 0])
        good = each.completed and not late and not slow
        minute[1] = max(0, minute[1] - good)
        met += good
    outcome.misses = max(0, outcome.requests - met)
    outcome.violation_minutes = sum(
        missed > (1 - target) * seen for seen, missed in outcome.by_minute.values()
    )


def _write_trace(path: Path, requests: Sequence[Request]) -> None:
    block = 0
    with path.open("w", encoding="utf-8") as file:
        for request in requests:
            count = ceil(request.prompt / BLOCK)
            hashes = ",".join(map(str, range(block, block + count)))
            block += count
            file.write(
                f'{{"timestamp":{round(request.at * 1000)},"input_length":{request.prompt},'
                f'"output_length":{request.output},"hash_ids":[{hashes}]}}\n'
            )


def _write_profile(path: Path, tables: Path, engine: Engine) -> None:
    prefill, decode = _table(tables, engine.setup)
    held, lengths = sorted({key[0] for key in decode}), sorted({key[1] for key in decode})
    np.savez(
        path,
        prefill_isl=np.array([tokens for tokens, _ in prefill]),
        prefill_ttft_ms=np.array([ms * engine.prefill for _, ms in prefill]),
        decode_active_kv_tokens=np.array(held),
        decode_context_length=np.array(lengths),
        decode_itl=np.array([[decode[a, b] * engine.decode for b in lengths] for a in held]),
    )


@lru_cache(maxsize=8)
def _table(tables: Path, setup: str) -> tuple[list[tuple[float, float]], dict[tuple[float, float], float]]:
    """Milliseconds of a prefill by tokens, and of a decode step by KV tokens held and context. Raises ValueError if there are none."""
    prefill: list[tuple[float, float]] = []
    decode: dict[tuple[float, float], float] = {}
    with gzip.open(tables, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["setup"] != setup:
                continue
            latency = float(row["latency_ms"])
            if row["kind"] == "prefill":
                prefill.append((float(row["prefill_tokens"]), latency))
            else:
                decode[float(row["active_kv_tokens"]), float(row["context_length"])] = latency
    if not prefill or not decode:
        raise ValueError(f"{tables} holds no rows of the setup {setup}")
    return sorted(prefill), decode
