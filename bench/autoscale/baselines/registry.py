"""Every baseline by name: how it is made for a run, as shipped or with a tuner's values for its knobs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from bench.autoscale.baselines.aibrix import AibrixKpa, Apa
from bench.autoscale.baselines.chiron import ChironStyle
from bench.autoscale.baselines.dynamo import DynamoLatency, DynamoSla, DynamoThroughput
from bench.autoscale.baselines.hpa import HpaKv, HpaRunning
from bench.autoscale.baselines.keda import KedaWaiting
from bench.autoscale.baselines.knative import Kpa
from bench.autoscale.baselines.knob import Knob
from bench.autoscale.baselines.kubeai import KubeAi
from bench.autoscale.baselines.llm_d_queue import LlmdQueue, LlmdQueueGuard, LlmdTokenAware
from bench.autoscale.baselines.ray_serve import RayServe
from bench.autoscale.baselines.sageserve import SageServeStyle
from bench.autoscale.baselines.slo_aware import SloAware
from bench.autoscale.baselines.static import Static
from bench.autoscale.baselines.wva import WvaSaturation, WvaTokens
from bench.autoscale.baselines.wva_queueing import WvaQueueing
from bench.autoscale.cheap import Run
from bench.autoscale.policy import Policy

Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Baseline:
    """A published rule. Its first knob moves it between cautious and thrifty. `re_implemented`: written from a paper that ships nothing, and to be labelled so."""

    name: str
    knobs: tuple[Knob, ...]
    build: Callable[[Run, Mapping[str, Any]], Policy]
    """The values become keywords of a constructor, whose names and ranges `make` has checked against the knobs."""
    re_implemented: bool = False
    wheel: str = ""
    """The package whose own code decides, where it is not written anew here (requirements/bench-dynamo.txt)."""
    tuned_as: str = ""
    """The baseline whose tuned values this one takes, being the same rule at a greater cost of computing."""

    @property
    def available(self) -> bool:
        """Whether it can be made in this environment."""
        return not self.wheel or _installed(self.wheel)

    def make(self, run: Run, values: Values | None = None) -> Policy:
        """A fresh policy for one run; knobs that are not given stay as shipped. Raises ValueError for an unknown or bad one,
        ModuleNotFoundError where its wheel is missing."""
        if not self.available:
            raise ModuleNotFoundError(
                f"{self.name} runs the code of {self.wheel}: install requirements/bench-dynamo.txt and bench-dynamo-wheel.txt"
            )
        ranges = {knob.name: knob for knob in self.knobs}
        for name, value in (values or {}).items():
            knob = ranges.get(name)
            if knob is None:
                raise ValueError(f"{self.name} has no knob {name}; it has {', '.join(ranges)}")
            if not knob.least <= value <= knob.most:
                raise ValueError(
                    f"{self.name}: {name} lies in {knob.least:g}..{knob.most:g}, not at {value:g}"
                )
        return self.build(run, values or {})

    @property
    def shipped(self) -> dict[str, float]:
        """The knobs' values as shipped."""
        return {knob.name: knob.shipped for knob in self.knobs}


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even its parent
        return False


def _prefill_rate(run: Run) -> float:
    """Prompt tokens that one replica prefills in a second when it does nothing else."""
    return 1 / run.hardware.prefill


_DYNAMO = "dynamo.planner"

BASELINES: dict[str, Baseline] = {
    each.name: each
    for each in (
        Baseline("static", Static.KNOBS, lambda run, v: Static(**v)),  # noqa: ARG005 - one shape for all
        Baseline("keda-waiting", KedaWaiting.KNOBS, lambda run, v: KedaWaiting(most=run.most, **v)),
        Baseline("hpa-running", HpaRunning.KNOBS, lambda run, v: HpaRunning(most=run.most, **v)),
        Baseline("hpa-kv", HpaKv.KNOBS, lambda run, v: HpaKv(most=run.most, **v)),
        Baseline("llm-d-queue", LlmdQueue.KNOBS, lambda run, v: LlmdQueue(most=run.most, **v)),
        Baseline(
            "llm-d-queue-guard", LlmdQueueGuard.KNOBS, lambda run, v: LlmdQueueGuard(most=run.most, **v)
        ),
        Baseline(
            "llm-d-token-aware",
            LlmdTokenAware.KNOBS,
            lambda run, v: LlmdTokenAware(_prefill_rate(run), most=run.most, **v),
        ),
        Baseline(
            "llm-d-slo-aware",
            SloAware.KNOBS,
            lambda run, v: SloAware(run.ttft, run.tpot, most=run.most, **v),
        ),
        Baseline("wva-v1", WvaSaturation.KNOBS, lambda run, v: WvaSaturation(most=run.most, **v)),
        Baseline("wva-v2", WvaTokens.KNOBS, lambda run, v: WvaTokens(most=run.most, **v)),
        Baseline(
            "wva-queueing",
            WvaQueueing.KNOBS,
            lambda run, v: WvaQueueing(run.ttft, run.tpot, most=run.most, batch=run.sequences, **v),
        ),
        Baseline("knative-kpa", Kpa.KNOBS, lambda run, v: Kpa(most=run.most, **v)),
        Baseline("aibrix-apa", Apa.KNOBS, lambda run, v: Apa(most=run.most, **v)),
        Baseline("aibrix-kpa", AibrixKpa.KNOBS, lambda run, v: AibrixKpa(most=run.most, **v)),
        Baseline("kubeai", KubeAi.KNOBS, lambda run, v: KubeAi(most=run.most, **v)),
        Baseline("ray-serve", RayServe.KNOBS, lambda run, v: RayServe(most=run.most, **v)),
        Baseline(
            "dynamo-throughput",
            DynamoThroughput.KNOBS,
            lambda run, v: DynamoThroughput(run, **v),
            wheel=_DYNAMO,
        ),
        Baseline(
            "dynamo-latency", DynamoLatency.KNOBS, lambda run, v: DynamoLatency(run, **v), wheel=_DYNAMO
        ),
        Baseline(
            "dynamo-sla",
            DynamoSla.KNOBS,
            lambda run, v: DynamoSla(run, **v),
            wheel=_DYNAMO,
            tuned_as="dynamo-sla-constant",
        ),
        Baseline(
            "dynamo-sla-constant",
            DynamoSla.KNOBS,
            lambda run, v: DynamoSla(run, predictor="constant", **v),
            wheel=_DYNAMO,
        ),
        Baseline(
            "chiron-style",
            ChironStyle.KNOBS,
            lambda run, v: ChironStyle(run.ttft, run.tpot, most=run.most, **v),
            re_implemented=True,
        ),
        Baseline(
            "sageserve-style",
            SageServeStyle.KNOBS,
            lambda run, v: SageServeStyle(_prefill_rate(run), most=run.most, **v),
            re_implemented=True,
        ),
    )
}
"""All of them, in the order of the report. The best static fleet is `static` with its knob tuned."""
