"""Runs a policy in the referee, NVIDIA Dynamo's engine replay: its engines, its clock and its verdict on each request.

Needs ai-dynamo-runtime (bench/autoscale/requirements.txt, an environment of its own). The replay tells fleet means and counts
and no histograms, so it is ticked every 100 ms, when a mean covers about one request, and one page is built from that.
"""

import csv
import gzip
import json
from collections import deque
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np  # type: ignore[import-not-found, unused-ignore]
from dynamo._core import MockEngineArgs, run_mocker_trace_replay  # type: ignore[import-not-found, unused-ignore]

from bench.autoscale.cheap import Outcome, Run
from bench.autoscale.fleet_page import page
from bench.autoscale.policy import Policy, Snapshot
from bench.autoscale.traces import Request
from tierwright.planning.counters import Counters

SETUPS = {"8b-a100": "llama31-8b_a100_tp1", "8b-h100": "llama31-8b_h100_tp1"}
BLOCK = 512


class _Bridge:
    """The replay's callback: counts at each 100 ms, asks the policy at each of its own ticks."""

    def __init__(self, policy: Policy, run: Run) -> None:
        self._policy, self._run = policy, run
        self._counters = Counters()
        self._pages: deque[tuple[float, str]] = deque()
        self._asked: dict[int, float] = {}
        self._next = run.tick
        self._wanted, self._move = run.initial, 0
        self._arrived = 0
        self.reversals = self.peak = 0
        self.hours = 0.0

    def initial_tick_ms(self) -> float:
        """First callback."""
        return 100.0

    def on_tick(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        """Count, and at the policy's tick decide."""
        now = snapshot["now_ms"] / 1000
        self._count(snapshot)
        answer: int | None = None
        if now >= self._next - 1e-6:
            self._next += self._run.tick
            answer = self._decide(snapshot, now)
        return {"target_prefill": None, "target_decode": answer, "next_tick_ms": snapshot["now_ms"] + 100.0}

    def _count(self, snapshot: dict[str, Any]) -> None:
        traffic, counters = snapshot["traffic"], self._counters
        self._arrived += traffic["num_req"]
        for _ in range(traffic["ttft_count"]):
            counters.first(traffic["avg_ttft_ms"] / 1000)
        for _ in range(traffic["itl_count"]):
            counters.ended(traffic["avg_itl_ms"] / 1000)
        shapes = traffic["shape_count"]
        counters.prompt_tokens += shapes * traffic["avg_isl"]
        counters.cached_tokens += shapes * traffic["avg_isl"] * traffic["avg_kv_hit_rate"]
        counters.output_tokens += shapes * traffic["avg_osl"]
        tokens = traffic["itl_count"] * max(0.0, traffic["avg_osl"] - 1)
        counters.inter_tokens += tokens
        counters.inter_token_seconds += tokens * traffic["avg_itl_ms"] / 1000

    def _decide(self, snapshot: dict[str, Any], now: float) -> int | None:
        run, counters, workers = self._run, self._counters, snapshot["decode_fpm_snapshots"]
        counters.running = sum(w["num_decode_requests"] + w["num_prefill_requests"] for w in workers)
        counters.waiting = sum(w["num_queued_prefill"] + w["num_queued_decode"] for w in workers)
        counters.finished = max(0, self._arrived - counters.running - counters.waiting)
        ready = snapshot["active_decode_count"]
        blocks = run.hardware.kv_blocks * max(1, ready)
        held = sum(w["sum_decode_kv_tokens"] for w in workers)
        counters.kv_usage = min(1.0, held / (blocks * run.hardware.block_size))
        text = page(counters, blocks, run.hardware.block_size)
        self._pages.append(
            (now, "\n".join(line for line in text.splitlines() if "iteration_tokens" not in line))
        )
        while len(self._pages) > 1 and self._pages[1][0] <= now - run.lag:
            self._pages.popleft()
        starting = snapshot["starting_decode_ids"]
        self._asked = {each: self._asked.get(each, now) for each in starting}
        ages = tuple(now - at for at in self._asked.values())
        billed = snapshot["total_decode_count"]
        if now >= run.score_from:
            self.hours += billed * run.tick / 3600
            self.peak = max(self.peak, billed)
        answer = self._policy.tick(Snapshot(now, self._pages[0], ready, ages, self._wanted))
        if answer is None or answer == self._wanted:
            return None
        answer = min(run.most, max(1, answer))
        move = (answer > self._wanted) - (answer < self._wanted)
        if move and self._move and move != self._move and now >= run.score_from:
            self.reversals += 1
        self._move = move or self._move
        self._wanted = answer
        return answer


def referee(
    requests: Sequence[Request], policy: Policy, run: Run, tables: Path, target: float = 0.99
) -> Outcome:
    """Replay the requests in the referee; a request counts from `score_from` on, and one that never ended is a miss."""
    bridge = _Bridge(policy, run)
    with TemporaryDirectory() as folder:
        here = Path(folder)
        _write_trace(here / "trace.jsonl", requests)
        _write_profile(here / "profile.npz", tables, SETUPS[run.hardware.name])
        engine = MockEngineArgs(
            engine_type="vllm",
            num_gpu_blocks=run.hardware.kv_blocks,
            block_size=run.hardware.block_size,
            max_num_seqs=run.sequences,
            max_num_batched_tokens=run.chunk,
            startup_time=run.cold_start,
            planner_profile_data=str(here / "profile.npz"),
        )
        run_mocker_trace_replay(
            [str(here / "trace.jsonl")],
            extra_engine_args=engine,
            num_workers=run.initial,
            trace_block_size=BLOCK,
            sla_ttft_ms=run.ttft * 1000,
            sla_itl_ms=run.tpot * 1000,
            scaling_policy=bridge,
            report_jsonl_path=str(here / "requests.jsonl"),
        )
        outcome = _judged(here / "requests.jsonl", requests, run, target)
    outcome.hours, outcome.reversals, outcome.peak = bridge.hours, bridge.reversals, bridge.peak
    return outcome


def _judged(report: Path, requests: Sequence[Request], run: Run, target: float) -> Outcome:
    outcome = Outcome(requests=sum(request.at >= run.score_from for request in requests))
    met = 0
    with report.open(encoding="utf-8") as lines:
        for line in lines:
            each = json.loads(line)
            at = each["arrival_time_ms"] / 1000
            if at < run.score_from:
                continue
            good = (
                each["terminal_status"] == "completed"
                and each["ttft_ms"] <= run.ttft * 1000
                and (each["itl_ms"] or 0.0) <= run.tpot * 1000
            )
            met += good
            minute = outcome.by_minute.setdefault(int(at // 60), [0, 0])
            minute[0] += 1
            minute[1] += not good
    outcome.misses = outcome.requests - met
    outcome.violation_minutes = sum(
        missed > (1 - target) * seen for seen, missed in outcome.by_minute.values()
    )
    return outcome


def _write_trace(path: Path, requests: Sequence[Request]) -> None:
    block = 0
    with path.open("w", encoding="utf-8") as file:
        for request in requests:
            count = ceil(request.prompt / BLOCK)
            hashes = list(range(block, block + count))
            block += count
            row = {
                "timestamp": round(request.at * 1000),
                "input_length": request.prompt,
                "output_length": request.output,
            }
            file.write(json.dumps({**row, "hash_ids": hashes}) + "\n")


def _write_profile(path: Path, tables: Path, setup: str) -> None:
    prefill: list[tuple[float, float]] = []
    decode: dict[tuple[float, float], float] = {}
    with gzip.open(tables, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["setup"] != setup:
                continue
            if row["kind"] == "prefill":
                prefill.append((float(row["prefill_tokens"]), float(row["latency_ms"])))
            else:
                decode[float(row["active_kv_tokens"]), float(row["context_length"])] = float(
                    row["latency_ms"]
                )
    held, lengths = sorted({key[0] for key in decode}), sorted({key[1] for key in decode})
    prefill.sort()
    np.savez(
        path,
        prefill_isl=np.array([tokens for tokens, _ in prefill]),
        prefill_ttft_ms=np.array([ms for _, ms in prefill]),
        decode_active_kv_tokens=np.array(held),
        decode_context_length=np.array(lengths),
        decode_itl=np.array([[decode[a, b] for b in lengths] for a in held]),
    )
