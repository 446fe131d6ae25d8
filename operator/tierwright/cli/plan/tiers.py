"""Turns tier files and measured step times into the cases of a plan, and says what of each had to be assumed."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tierwright.api.engine import EngineType
from tierwright.api.parse import parse_tier
from tierwright.api.tier import KIND, InferenceTier
from tierwright.capacity.work import PRIOR_STEP_TIME, StepTime
from tierwright.cli import yaml_text
from tierwright.cli.documents import Input, Problem, documents, is_something_else
from tierwright.control.pool_budget import Pool, pool_of
from tierwright.control.tier_settings import LoopTiming, latency_objectives, tier_settings
from tierwright.planning.case import Case
from tierwright.planning.demand import Demand
from tierwright.planning.engine import Hardware
from tierwright.planning.measured import MEASURED

_PARTS: Final = ("fixed", "batch", "context", "prefill")
_TIME: Final = re.compile(r"([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)(s|ms|us|ns)")
_SECONDS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_OBJECTIVES: Final = "spec.scaling.objectives"
_CHUNK: Final = {EngineType.VLLM: 2048, EngineType.JAX: 256}
_SEQUENCES: Final = {EngineType.VLLM: 256, EngineType.JAX: 8}
"""The engines' own defaults: vLLM's on most devices; the worker's slots."""
_FORM: Final = (
    "write the name of a measured one, or fixed=11.5ms,batch=38us,context=79ns,prefill=60us: seconds of one engine step, "
    "for each running request, each token of their contexts, and each prompt token computed"
)


@dataclass(frozen=True)
class Planned:
    """One tier and what its plan assumes."""

    case: Case
    accelerator: str
    step_time: str
    """Where the step time comes from."""
    assumed: tuple[str, ...]
    """Everything that nobody measured or wrote down, in sentences."""
    pool: Pool | None
    """The accelerators that it shares with the other tiers of this pool; None on CPUs."""


@dataclass(frozen=True)
class StepTimes:
    """Step times by tier; the tier `""` stands for all others."""

    by_tier: Mapping[str, tuple[StepTime, str]]

    def of(self, tier: InferenceTier) -> tuple[StepTime, str, bool]:
        """The step time, where it is from, and whether it is a guess."""
        for name in (tier.metadata.name, f"{tier.metadata.namespace}/{tier.metadata.name}", ""):
            if name in self.by_tier:
                return *self.by_tier[name], False
        accelerator = tier.spec.hardware.accelerator
        source = (
            f"what is believed of {accelerator} before anything was measured: {_PRIOR[accelerator.value]}"
        )
        return PRIOR_STEP_TIME[accelerator.value], source, True


_PRIOR: Final[Mapping[str, str]] = {
    "nvidia": "an 8B model on an A100",
    "neuron": "an 8B model, the A100's by the ratio of an Inferentia2's bandwidth and FLOP rate",
    "cpu": "a 135M model in float32 on two cores",
}


def read_step_times(given: Sequence[str], files: Sequence[str]) -> tuple[StepTimes, list[str]]:
    """The step times of `[TIER:]VALUE` and of YAML files that map a tier's name to a value; and what is wrong with them."""
    found: dict[str, tuple[StepTime, str]] = {}
    errors: list[str] = []
    for name in files:
        errors += _of_file(name, found)
    for text in given:
        tier, colon, value = text.rpartition(":")
        _take(f"--step-time {text}", tier if colon else "", value, found, errors)
    return StepTimes(found), errors


def _of_file(name: str, found: dict[str, tuple[StepTime, str]]) -> list[str]:
    try:
        content = yaml_text.load(Path(name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml_text.UnreadableError) as error:
        return [f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}"]
    if not isinstance(content, dict) or not content:
        return [f"{name}: a mapping of tier names to step times is expected"]
    errors: list[str] = []
    for tier, value in content.items():
        _take(f"{name}: {tier}", str(tier), str(value), found, errors)
    return errors


def _take(
    where: str, tier: str, value: str, found: dict[str, tuple[StepTime, str]], errors: list[str]
) -> None:
    if value in MEASURED:
        found[tier] = MEASURED[value], f"{value}, fitted to kernels that were measured elsewhere"
        return
    parts = dict(each.strip().partition("=")[::2] for each in value.split(","))
    matches = {name: _TIME.fullmatch(parts.get(name, "").strip()) for name in _PARTS}
    numbers = {
        name: float(match[1]) * _SECONDS[match[2]] for name, match in matches.items() if match is not None
    }
    if set(parts) != set(_PARTS) or len(numbers) < len(_PARTS):
        errors.append(f"{where}: is no step time; {_FORM}. Measured are {', '.join(MEASURED)}")
    elif numbers["fixed"] <= 0:
        errors.append(f"{where}: fixed must be above zero; no engine steps in no time")
    else:
        found[tier] = StepTime(*(numbers[name] for name in _PARTS)), "as given"


def plan_tiers(
    inputs: Iterable[Input], step_times: StepTimes, score_from: float
) -> tuple[list[Planned], list[str], list[str]]:
    """The tiers of the files, everything that is wrong with them, and warnings."""
    planned: list[Planned] = []
    errors: list[str] = []
    warnings: list[str] = []
    for source in inputs:
        found = False
        for item in documents(source):
            if isinstance(item, Problem):
                errors.append(str(item))
            elif is_something_else(item.content):
                warnings.append(f"{item.where}: {item.content['kind']} is no {KIND} and was left out")
                continue
            else:
                parsed = parse_tier(item.content, strict=True)
                told = any(error.path == _OBJECTIVES for error in parsed.errors)
                wrong = [] if told else list(_unplannable(parsed.tier or parsed.readable))
                errors += [f"{item.where}: {words}" for words in (*map(str, parsed.errors), *wrong)]
                if parsed.tier is not None and not wrong:
                    planned.append(_planned(parsed.tier, step_times, score_from))
            found = True
        if not found:
            errors.append(
                f"{source.name}: holds no {KIND}; write one with apiVersion, kind, metadata and spec"
            )
    return planned, errors + list(_twins(planned, step_times, bool(errors))), warnings


def _unplannable(tier: InferenceTier | None) -> Iterator[str]:
    if tier is None:
        return
    objectives = latency_objectives(tier)
    if objectives.first_token is None and objectives.per_token is None:
        yield (
            f"{_OBJECTIVES}: a plan needs what shall be kept; write timeToFirstToken, timePerOutputToken or both"
        )


def _twins(planned: Sequence[Planned], step_times: StepTimes, incomplete: bool) -> Iterator[str]:
    names = [each.case.name for each in planned]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{name}: stands twice in the files; a plan needs each tier once"
    plain = {name.rpartition("/")[2] for name in names} | set(names)
    for name in step_times.by_tier:
        if name and name not in plain and not incomplete:
            yield f"--step-time: there is no tier {name}; the files hold {', '.join(names)}"


def _planned(tier: InferenceTier, step_times: StepTimes, score_from: float) -> Planned:
    spec, scaling = tier.spec, tier.spec.scaling
    settings, objectives = tier_settings(tier, LoopTiming()), latency_objectives(tier)
    step, source, guessed = step_times.of(tier)
    accelerator = spec.hardware.accelerator.value
    batching = spec.engine.batching
    assumed = ["the step time: this tier's was not measured; give it by --step-time"] if guessed else []
    if scaling.cold_start is None:
        assumed.append(f"scaling.coldStart: {settings.cold_start:.0f} s")
    if batching.max_batched_tokens is None:
        assumed.append(f"engine.batching.maxBatchedTokens: {_CHUNK[spec.engine.type]}")
    if batching.max_sequences is None:
        assumed.append(f"engine.batching.maxSequences: {_SEQUENCES[spec.engine.type]}")
    if spec.engine.speculation is not None:
        assumed.append(
            "engine.speculation: left out, so tokens come faster than planned where drafts are taken"
        )
    name = f"{tier.metadata.namespace}/{tier.metadata.name}"
    case = Case(
        name=name,
        speed=spec.speed,
        engine=Hardware(name, step.fixed, step.batch, step.context, step.prefill),
        first_token=math.inf if objectives.first_token is None else objectives.first_token,
        per_token=math.inf if objectives.per_token is None else objectives.per_token,
        settings=settings,
        start=scaling.bounded_in_auto(spec.replicas),
        devices=(spec.hardware.count or 1) * spec.hardware.hosts,
        price=None if scaling.cost is None else float(scaling.cost.per_replica_hour),
        chunk=batching.max_batched_tokens or _CHUNK[spec.engine.type],
        sequences=batching.max_sequences or _SEQUENCES[spec.engine.type],
        score_from=score_from,
    )
    drawn = pool_of(tier)
    return Planned(case, accelerator, source, tuple(assumed), None if drawn is None else drawn[0])


def begun(planned: Planned, demand: Demand, start: int | None) -> Planned:
    """The tier with the replicas that it has when the trace begins: those given, else what its beginning needs.

    A tier that serves such traffic already has no fewer; a cold start of the whole fleet would blame the autoscaler for it.
    """
    settings = planned.case.settings
    wanted = max(planned.case.start, demand.at_the_beginning) if start is None else start
    begins = min(settings.maximum, max(settings.minimum, wanted))
    words = f"replicas when the trace begins: {begins}, what its first ten minutes need; say another number by --start"
    assumed = planned.assumed if start is not None else (*planned.assumed, words)
    return replace(planned, case=replace(planned.case, start=begins), assumed=assumed)
