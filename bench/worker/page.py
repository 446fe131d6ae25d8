"""Writes the tables of docs/benchmarks/worker.md from the results; what stands around them is written by hand."""

from pathlib import Path
from typing import Any

from bench.worker.markdown import markdown
from bench.worker.profile_page import profile_lines
from bench.worker.results import Results
from tierwright_worker.bench.report import TARGETS, Target, shown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "worker.md"
BEGIN = "<!-- tables: written by make bench-worker -->"
END = "<!-- end of tables -->"
ALL_TARGETS = {
    **TARGETS,
    "batch1_over_vllm": Target(
        "at least", 1.3, "one stream without speculation: over vLLM's, same f32 weights"
    ),
    "batch8_over_vllm": Target("at least", 1.0, "eight streams together: over vLLM's"),
    "prefill_over_llamacpp": Target("at least", 3.0, "prompts of 1,500 tokens: over llama.cpp's"),
}


# Whoever else uses the processors, these stay what they are.
TIMELESS = frozenset({"identical_greedy", "rss_over_weights"})


def write_page(path: Path, results: Results) -> None:
    """Replace what stands between the marks.

    Raises:
        ValueError: the page lacks a mark.
    """
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} lacks {BEGIN if not begin else END}")
    path.write_text(before + "\n".join([BEGIN, "", *tables(results), "", END]) + after, encoding="utf-8")


def summary(results: Results) -> list[str]:
    """Lines for the terminal: each figure with its target."""
    rows = figure_rows(results)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def figure_rows(results: Results) -> list[tuple[str, ...]]:
    """Figure, value, target, verdict, what it is; a value measured on a busy machine says so."""
    figures, busy = results.figures, results.busy - TIMELESS
    return [
        (
            key,
            shown(figures[key]) + (" (busy machine)" if key in busy else ""),
            f"{target.bound} {shown(target.value)}",
            "open" if key in busy else "met" if target.met(figures[key]) else "missed",
            target.words,
        )
        for key, target in ALL_TARGETS.items()
        if key in figures
    ]


def tables(results: Results) -> list[str]:
    """The page's tables, as Markdown."""
    lines = [_machine(results), ""]
    if results.figures:
        lines += markdown(["figure", "measured", "target", "", "what it is"], figure_rows(results))
    missing = [key for key in ALL_TARGETS if key not in results.figures]
    if missing:
        lines += ["", f"Without a figure so far: {', '.join(missing)}."]
    if results.busy:
        lines += [
            "",
            "Figures of a busy machine are an impression and leave their targets open.",
        ]
    lines += _roofline(results)
    own = _own(results)
    lines += _settings(results.parts.get("gears", {}))
    if own.get("sets"):
        lines += ["", "Tokens per second after the first step, by kind of prompt:", ""]
        lines += markdown(
            [
                "prompts",
                "number",
                "tokens",
                "fast",
                "plain",
                "one of 8 loaded",
                "tokens per step",
                "a step in plain steps",
                "fast ÷ plain",
                "least",
                "greatest",
                "whole answer",
            ],
            [_set_row(kind, rates) for kind, rates in own["sets"].items()],
        )
        lines += _headline(own)
    lines += _agreements(own) + _memory(own)
    profile = results.parts.get("steps", {}).get("profile")
    if profile:
        lines += ["", *profile_lines(profile, results.parts.get("machine", {}).get("roofline", {}))]
    if any(name in results.parts for name in ("vllm", "llamacpp")):
        lines += ["", "Tokens per second beside other engines, best of the rounds (median of them):", ""]
        lines += markdown(
            ["beside", "measure", "this worker", "the other", "best ÷ best", "median of pairs"],
            _engine_rows(results),
        )
    lines += ["", "When and how undisturbed each part was measured:", ""]
    lines += markdown(
        ["part", "at", "revision", "minutes", "CPU used by others"],
        [
            (name, part["at"], part["commit"], f"{part['seconds'] / 60:.1f}", f"{part['others']:.0%}")
            for name, part in results.parts.items()
        ],
    )
    return lines


def _machine(results: Results) -> str:
    machine = results.machine
    if not machine:
        return "No machine is known."
    family = f"family {machine['cpu_family']} model {machine['cpu_model']}"
    return (
        f"Machine: {machine['cores']} cores of {machine['cpu']} ({family}; {', '.join(machine['cpu_flags'])}), "
        f"{machine['memory_gib']} GiB, Linux {machine['kernel']}, Python {machine['python']}, JAX {machine['jax']}."
    )


def _own(results: Results) -> dict[str, Any]:
    """What the parts of the worker alone have measured."""
    found: dict[str, Any] = {}
    for name in ("steps", "process", "gears"):
        measured = results.parts.get(name, {}).get("measured", {})
        found |= {key: value for key, value in measured.items() if value is not None}
    return found


def _headline(own: dict[str, Any]) -> list[str]:
    """The gain as a product of what a step gives and what it costs."""
    lines = []
    for kind, rates in own["sets"].items():
        cost = rates["tokens_per_step"] * rates["plain"] / rates["fast"]
        lines.append(
            f"{kind} {rates['tokens_per_step']:.2f} tokens a step ÷ {cost:.2f} plain steps a step = "
            f"{rates['fast'] / rates['plain']:.2f}"
        )
    steps = own.get("steps")
    wide = (
        f" A bare step of {steps['rows']} rows costs {min(steps['wide']) / min(steps['narrow']):.2f} plain ones; what is "
        "above it, the drafts' look-up, acceptance and tokens that reach a longer cache cost."
        if steps
        else ""
    )
    return ["", f"The gain is what a step gives over what it costs: {'; '.join(lines)}.{wide}"]


def _settings(part: dict[str, Any]) -> list[str]:
    """With which kernels the worker ran, and how often it was asked what."""
    settings = part.get("settings")
    if not settings:
        return []
    cut = " The run was interrupted: only whole passes count." if part.get("interrupted") else ""
    every = settings["every"]
    asked = "Each prompt was asked" if every == 1 else f"Only one prompt in {every} of the set was asked,"
    return [
        "",
        f"Kernels for processors: {settings['kernels']}. {asked} {settings['passes']} times of each gear; the best counts.{cut}",
    ]


def _roofline(results: Results) -> list[str]:
    """What the machine could do at best, and how far plain steps are from it."""
    best = results.parts.get("machine", {}).get("roofline")
    if not best:
        return []
    read = best["read_seconds"]
    speed = 4 * best["parameters"] / read / 1e9
    line = (
        f"All {best['parameters'] / 1e6:.1f} million weights are read once in {1000 * read:.1f} ms ({speed:.1f} GB/s): at most "
        f"{best['steps_per_second']:.1f} steps a second in f32. Large products run at "
        f"{best['operations_per_second'] / 1e9:.0f} GFLOP/s: at most {best['prompt_tokens_per_second']:.0f} prompt tokens a second."
    )
    own = _own(results)
    steps, prose = own.get("steps"), own.get("sets", {}).get("prose")
    if steps:
        narrow, wide = min(steps["narrow"]), min(steps["wide"])
        line += (
            f" A plain step of the worker takes {1000 * narrow:.1f} ms, {narrow / read:.2f} times that reading; "
            f"one of {steps['rows']} rows {1000 * wide:.1f} ms."
        )
    if prose:
        line += f" A token of prose takes {1000 / prose['plain']:.1f} ms in the plain engine: the step and all around it."
    return ["", line]


def _agreements(own: dict[str, Any]) -> list[str]:
    """How many answers are the same, and which are not."""
    lines = []
    for side, words in (("plain", "fast and plain"), ("loaded", "loaded and plain")):
        found = own.get(side)
        if found:
            others = f"; not {', '.join(found['differing'])}" if found["differing"] else ""
            lines.append(
                f"Answers that are the same token by token, {words}: {found['same']} of {found['of']}{others}."
            )
    cache = own.get("cache")
    if cache:
        lines.append(
            f"Tokens that stay the most probable ones with {cache['numbers']} keys and values, each after the recorded ones "
            f"before it: {cache['same'] / cache['of']:.1%} of {cache['of']:,}."
        )
    return ["", *lines] if lines else []


def _memory(own: dict[str, Any]) -> list[str]:
    """What a worker's process takes."""
    process = own.get("process")
    if not process:
        return []
    run = min(process["runs"], key=lambda each: each["peak"])
    pages = round(run["pages"] * process["page_bytes"] / 1e6)
    peak, resident, private, weights, cache = (
        round(size / 1e6)
        for size in (
            run["peak"],
            run["resident"],
            run["private"],
            process["weight_bytes"],
            process["cache_bytes"],
        )
    )
    return [
        "",
        f"Memory of the fast gear as a process: at most {peak} MB; with its context filled once {resident} MB, of which "
        f"{private} MB private. Its weights are {weights} MB, its keys and values at full length {cache} MB, the prompt cache's "
        f"pages then {pages} MB.",
    ]


def _set_row(kind: str, rates: dict[str, Any]) -> tuple[str, ...]:
    return (
        kind,
        str(rates["prompts"]),
        str(rates["tokens"]),
        *(f"{rates[side]:.1f}" for side in ("fast", "plain", "loaded")),
        f"{rates['tokens_per_step']:.2f}",
        f"{rates['tokens_per_step'] * rates['plain'] / rates['fast']:.2f}",
        f"{rates['fast'] / rates['plain']:.2f}",
        *(f"{rates[ratio]:.2f}" for ratio in ("worst", "best", "end_to_end")),
    )


def _engine_rows(results: Results) -> list[tuple[str, ...]]:
    rows = []
    for part in ("vllm", "llamacpp"):
        measured = results.parts.get(part, {})
        for measure, samples in measured.get("samples", {}).items():
            ours, theirs = (sorted(samples[name]) for name in ("tierwright", part))
            rows.append(
                (
                    part,
                    measure,
                    *(f"{side[-1]:.1f} ({side[len(side) // 2]:.1f})" for side in (ours, theirs)),
                    f"{ours[-1] / theirs[-1]:.2f}",
                    f"{measured['pairs'][measure]:.2f}",
                )
            )
    return rows
