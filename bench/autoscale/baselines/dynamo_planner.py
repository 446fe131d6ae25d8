"""NVIDIA Dynamo's planner as its wheel has it, and the records of its engines as far as a page tells them."""

import logging
import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from bench.autoscale.baselines.loops import bounded
from bench.autoscale.cheap import Run
from bench.autoscale.policy import Snapshot
from tierwright.observe.metrics import MetricsPage
from tierwright.observe.page_delta import PageDelta

CONTEXT = 131_072
"""Context length of the served model (Llama 3.1)."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the predictors expect of the next interval."""

    seconds: float
    requests: float
    prompt: float
    output: float


class Planner:
    """The shared state of the wheel, and the engines' records built from pages."""

    def __init__(self, run: Run, **config: Any) -> None:
        # Imported here: every other baseline runs without the wheel, whose modules bear no types.
        records: Any = import_module("dynamo.common.forward_pass_metrics")
        types: Any = import_module("dynamo.planner.core.types")
        configuration: Any = import_module("dynamo.planner.config.planner_config")
        machine: Any = import_module("dynamo.planner.core.state_machine")
        logging.getLogger("dynamo").setLevel(logging.CRITICAL)
        self._records, self._types = records, types
        engine = run.hardware
        able = types.EngineCapabilities(
            num_gpu=1,
            max_num_batched_tokens=run.chunk,
            max_num_seqs=run.sequences,
            context_length=CONTEXT,
            max_kv_tokens=engine.kv_blocks * engine.block_size,
            kv_cache_block_size=engine.block_size,
        )
        self.config = configuration.PlannerConfig(
            mode="agg", environment="virtual", max_gpu_budget=run.most, **config
        )
        self.state = machine.PlannerScalingState(self.config, types.WorkerCapabilities(decode=able))
        self._most = run.most

    def workers(self, page: MetricsPage, delta: PageDelta | None, ready: int) -> Any:
        """One record for each ready worker: what one step of it holds, and what waits."""
        prompts, prompt, step = traffic(page, delta)
        kv = (page.kv_usage or 0.0) * (page.kv_tokens or 0.0) / ready
        running, waiting = (page.running or 0.0) / ready, (page.waiting or 0.0) / ready
        scheduled = self._records.ScheduledRequestMetrics(
            num_prefill_requests=math.ceil(prompts / prompt) if prompts > 0 and prompt > 0 else 0,
            sum_prefill_tokens=round(prompts),
            num_decode_requests=round(running),
            sum_decode_kv_tokens=round(kv),
        )
        queued = self._records.QueuedRequestMetrics(
            num_prefill_requests=round(waiting), sum_prefill_tokens=round(waiting * prompt)
        )
        return self._types.FpmObservations(
            decode={
                (str(worker), 0): self._records.ForwardPassMetrics(
                    worker_id=str(worker),
                    wall_time=step,
                    scheduled_requests=scheduled,
                    queued_requests=queued,
                )
                for worker in range(ready)
            }
        )

    def decide(self, seen: Snapshot, workers: Any, traffic: "Forecast | None") -> int | None:
        """One tick of the planner, whose load loop reads the floor that its throughput loop has just set."""
        state = self.state
        state.begin_tick()
        state.observe_worker_counts(
            self._types.WorkerCounts(
                ready_num_decode=seen.ready,
                expected_num_decode=seen.wanted,
                decode_scaling_in_progress=bool(seen.starting),
            )
        )
        state.observe_fpm(workers)
        decision = None
        if traffic is not None:
            decision = state.advance_throughput_from_prediction(
                self._types.TrafficObservation(
                    traffic.seconds, traffic.requests, traffic.prompt, traffic.output
                ),
                predicted_num_req=traffic.requests,
                predicted_isl=traffic.prompt,
                predicted_osl=traffic.output,
                predicted_kv_hit_rate=None,
            )
        if self.config.enable_load_scaling:
            decision = state.advance_load(workers) or decision
        if decision is None or decision.num_decode is None:
            return None
        return bounded(decision.num_decode, 1, self._most)


def traffic(page: MetricsPage, delta: PageDelta | None) -> tuple[float, float, float]:
    """Prompt tokens of a mean step, tokens of a mean prompt, seconds of a mean step; zeros before anything is known."""
    if delta is None:
        return 0.0, 0.0, 0.0
    inter = delta.inter_token
    step = inter.sum / inter.count if inter and inter.count else 0.0
    uncached = max(0.0, (delta.prompt_tokens or 0.0) - (delta.cached_tokens or 0.0))
    if delta.steps is not None and delta.steps.count:
        per_step = uncached / delta.steps.count
    else:
        # Without a count of steps: those that generate, each with a token for every request that runs.
        generating = (delta.output_tokens or 0.0) / max(1.0, page.running or 0.0)
        per_step = uncached / generating if generating else 0.0
    return per_step, mean_prompt(delta), step


def mean_prompt(delta: PageDelta) -> float:
    """Tokens of a mean prompt; 0 without any."""
    first = delta.first_token.count if delta.first_token else 0.0
    return (delta.prompt_tokens or 0.0) / first if first else 0.0


def mean_output(delta: PageDelta) -> float:
    """Tokens of a mean answer; 0 without any."""
    return (delta.output_tokens or 0.0) / delta.finished if delta.finished else 0.0
