"""Puts the figures together and shows them: keys and targets, a table for people, and values for JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tierwright_worker.bench.figures import Agreement, SetRates, memory_ratio, step_ratio
from tierwright_worker.bench.process import ProcessFacts
from tierwright_worker.bench.prompts import PROMPTS_SHA256, Kind
from tierwright_worker.bench.replay import TokenAgreement

Value = float | bool


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should reach; `words` say what it is."""

    bound: Literal["at least", "at most", "is"]
    value: Value
    words: str

    def met(self, figure: Value) -> bool:
        """Whether the figure reaches it."""
        if self.bound == "is":
            return figure == self.value
        return figure >= self.value if self.bound == "at least" else figure <= self.value


TARGETS: Mapping[str, Target] = {
    "edit_speedup": Target("at least", 2.0, "edits: fast over plain, same engine, one request"),
    "copy_speedup": Target("at least", 2.5, "copies: fast over plain"),
    "tokens_per_step": Target("at least", 2.5, "edits: tokens that one step of the fast gear gives"),
    "prose_ratio": Target("at least", 0.95, "prose: fast over plain"),
    "identical_greedy": Target("is", True, "every answer the same, token by token, fast and plain"),
    "fast_over_loaded_standard_edit": Target(
        "at least", 5.0, "edits: fast over one stream of a standard engine whose slots are full"
    ),
    "fast_over_loaded_standard_prose": Target("at least", 2.0, "prose: the same"),
    "step9_over_step1": Target("at most", 1.3, "seconds of the widest step over those of one row"),
    "warm_ready_seconds": Target(
        "at most", 15.0, "start of the process to ready, programs and weights cached"
    ),
    "rss_over_weights": Target("at most", 1.6, "peak memory less keys and values, over the weights' bytes"),
}


@dataclass(frozen=True, slots=True)
class StepSeconds:
    """Seconds of single steps of `rows` rows and of one row, taken in turn, at one cache length."""

    rows: int
    length: int
    wide: tuple[float, ...]
    narrow: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ProcessRuns:
    """Workers as processes; bytes of the slots' keys and values at full length, of a cached page's, and of the weights."""

    runs: tuple[ProcessFacts, ...]
    cache_bytes: int
    page_bytes: int
    weight_bytes: int

    @property
    def memory(self) -> float:
        """The least peak of the runs less all keys and values, over the weights."""
        kept = [run.peak - run.pages * self.page_bytes for run in self.runs]
        return memory_ratio(min(kept), self.cache_bytes, self.weight_bytes)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was measured; None = not asked for. `plain` compares the fast engine's answers with the plain ones.

    `loaded` compares the loaded engine's with them; `cache`: the plain answers, replayed with other keys and values.
    """

    sets: Mapping[Kind, SetRates] | None = None
    plain: Agreement | None = None
    loaded: Agreement | None = None
    cache: TokenAgreement | None = None
    steps: StepSeconds | None = None
    process: ProcessRuns | None = None


def figures_of(gathered: Gathered) -> dict[str, Value]:
    """Every figure for which there is a measurement, under its key."""
    found: dict[str, Value] = {}
    sets = gathered.sets or {}
    if Kind.EDIT in sets:
        edit = sets[Kind.EDIT]
        found["edit_speedup"] = edit.speedup
        found["tokens_per_step"] = edit.tokens_per_step
        found["fast_over_loaded_standard_edit"] = edit.over_loaded
    if Kind.COPY in sets:
        found["copy_speedup"] = sets[Kind.COPY].speedup
    if Kind.PROSE in sets:
        found["prose_ratio"] = sets[Kind.PROSE].speedup
        found["fast_over_loaded_standard_prose"] = sets[Kind.PROSE].over_loaded
    if gathered.plain is not None:
        found["identical_greedy"] = gathered.plain.all
    if gathered.steps is not None:
        found["step9_over_step1"] = step_ratio(gathered.steps.wide, gathered.steps.narrow)
    if gathered.process is not None:
        found["warm_ready_seconds"] = min(run.ready for run in gathered.process.runs)
        found["rss_over_weights"] = gathered.process.memory
    return {key: found[key] for key in TARGETS if key in found}


def as_json(gathered: Gathered, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values: the figures, and all that they were made of."""
    measured = asdict(gathered)
    if gathered.sets is not None:
        measured["sets"] = {str(kind): asdict(rates) for kind, rates in gathered.sets.items()}
    return {
        "prompts_sha256": PROMPTS_SHA256,
        "settings": dict(settings),
        "figures": figures_of(gathered),
        "measured": measured,
    }


def table(figures: Mapping[str, Value], targets: Mapping[str, Target] = TARGETS) -> list[str]:
    """Lines of an aligned table: figure, target, whether it is met, what it is."""
    rows = [("figure", "", "target", "", "")]
    for key, figure in figures.items():
        target = targets[key]
        verdict = "met" if target.met(figure) else "MISSED"
        rows.append((key, shown(figure), f"{target.bound} {shown(target.value)}", verdict, target.words))
    return _aligned(rows)


def sets_table(sets: Mapping[Kind, SetRates]) -> list[str]:
    """Lines of a table of tokens per second by kind of prompt."""
    rows: list[tuple[str, ...]] = [
        ("prompts", "n", "tokens", "fast", "plain", "loaded", "tok/step", "least", "greatest", "whole answer")
    ]
    for kind, rates in sets.items():
        ratios = (rates.worst, rates.best, rates.end_to_end)
        numbers = (rates.fast, rates.plain, rates.loaded)
        rows.append(
            (
                str(kind),
                str(rates.prompts),
                str(rates.tokens),
                *(f"{number:.1f}" for number in numbers),
                f"{rates.tokens_per_step:.2f}",
                *(f"{ratio:.2f}x" for ratio in ratios),
            )
        )
    return _aligned(rows)


def agreement_lines(gathered: Gathered) -> list[str]:
    """How far answers agree: between the gears, and with other keys and values."""
    lines = []
    for found, words in ((gathered.plain, "fast and plain"), (gathered.loaded, "loaded and plain")):
        if found is not None:
            lines.append(
                f"answers that are the same, {words}: {found.same} of {found.of}; "
                f"tokens before they part: {found.tokens:.2%}"
            )
    cache = gathered.cache
    if cache is not None:
        lines.append(
            f"tokens that stay the most probable ones with {cache.numbers} keys and values: "
            f"{cache.share:.2%} of {cache.of}"
        )
    return lines


def shown(value: Value) -> str:
    """A figure as a table shows it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.2f}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
