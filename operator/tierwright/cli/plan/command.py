"""``tierwright plan``: what a trace of requests would take of tiers, by replaying it in a model of their fleets."""

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tierwright.api.scalars import duration_seconds
from tierwright.cli.documents import STDIN, emit, read
from tierwright.cli.plan import plot
from tierwright.cli.plan.json_report import document
from tierwright.cli.plan.search import Effort, SearchError, search
from tierwright.cli.plan.table_report import Found, table
from tierwright.cli.plan.tiers import Planned, begun, plan_tiers, read_step_times
from tierwright.cli.plan.trace import Shares, Trace, read_trace
from tierwright.cli.progress import Progress
from tierwright.planning.trace_rows import Columns

_RANGE: Final = re.compile(r"([1-9][0-9]{0,3})(?:-([1-9][0-9]{0,3}))?")


def run(arguments: argparse.Namespace) -> int:
    """Print the plan; everything else goes to stderr. 0 when there is a plan, 1 when not, 2 when used wrongly."""
    if wrong := _wrong_use(arguments):
        print("\n".join(f"tierwright plan: {words}" for words in wrong), file=sys.stderr)
        return 2
    progress = Progress()
    try:
        with tempfile.TemporaryDirectory(prefix="tierwright-plan-") as folder:
            plan = _plan(arguments, Path(folder), progress.tell)
    except KeyboardInterrupt:
        plan = _Plan(errors=["stopped"])
    except SearchError as error:
        plan = _Plan(errors=[str(error)])
    progress.done()
    for warning in plan.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for wrong_one in plan.errors:
        print(f"error: {wrong_one}", file=sys.stderr)
    if plan.errors or plan.trace is None:
        return 1
    name = "stdin" if arguments.trace == STDIN else Path(arguments.trace).name
    status = emit((document if arguments.json else table)(plan.trace, name, plan.found))
    return status or (_plot(plan.found, arguments.plot) if arguments.plot else 0)


@dataclass
class _Plan:
    """What came of it: something was found, or something is wrong."""

    trace: Trace | None = None
    found: Sequence[Found] = ()
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def _plan(arguments: argparse.Namespace, folder: Path, tell: Callable[[str], None]) -> _Plan:
    """Read everything, and search when nothing is wrong. Raises SearchError."""
    inputs, errors = read(arguments.filename)
    step_times, wrong_times = read_step_times(arguments.step_time, arguments.step_times)
    planned, wrong_tiers, warnings = plan_tiers(inputs, step_times, duration_seconds(arguments.warm_up))
    errors += [*wrong_times, *wrong_tiers]
    shares: Shares | None = None
    if not errors:
        weights, wrong_shares = _weights(planned, arguments.share, arguments.speed_column)
        errors += wrong_shares
        shares = Shares(weights, arguments.seed) if weights and not errors else None
    # The trace is read even when a tier is wrong: all errors are told at once.
    trace = read_trace(
        arguments.trace,
        _columns(arguments),
        [each.case for each in planned],
        shares,
        None if errors else folder,
        tell,
    )
    errors += trace.errors
    warnings += trace.warnings
    for each, part in zip(planned, trace.parts, strict=False):
        if not trace.errors and part.demand.last < each.case.score_from:
            errors.append(
                f"--warm-up {arguments.warm_up}: leaves no request of {each.case.name} to count; they end after "
                f"{part.demand.last:.0f} s"
            )
    if errors:
        return _Plan(errors=errors, warnings=warnings)
    planned = [
        begun(each, part.demand, arguments.start) for each, part in zip(planned, trace.parts, strict=True)
    ]
    tried = search([each.case for each in planned], trace.parts, _effort(arguments), tell)
    found = [Found(*each) for each in zip(planned, trace.parts, tried, strict=True)]
    return _Plan(trace, found, warnings=warnings)


def _wrong_use(arguments: argparse.Namespace) -> list[str]:
    """What is wrong with the flags themselves."""
    wrong = []
    try:
        duration_seconds(arguments.warm_up)
    except ValueError as error:
        wrong.append(f"--warm-up: {error}")
    if [*arguments.filename, arguments.trace].count(STDIN) > 1:
        wrong.append("--trace and --filename: only one can be - for stdin")
    if arguments.jobs < 1:
        wrong.append("--jobs: at least 1")
    if arguments.start is not None and not 0 <= arguments.start <= 1000:
        wrong.append("--start: a number of replicas from 0 to 1000")
    if arguments.static is not None and not _sizes(arguments.static):
        wrong.append(f"--static: {arguments.static!r} is no list of sizes such as 2,4-6")
    if arguments.share and arguments.speed_column:
        wrong.append(
            "--share and --speed-column: the trace says who asks for what, or the shares do; leave one out"
        )
    if arguments.plot is not None:
        if arguments.plot.suffix not in plot.FORMATS:
            wrong.append(f"--plot: {arguments.plot} must end in {' or '.join(plot.FORMATS)}")
        elif not plot.available():
            wrong.append(plot.MISSING)
        elif not arguments.plot.absolute().parent.is_dir():
            wrong.append(f"--plot: there is no folder {arguments.plot.parent}")
    return wrong


def _sizes(text: str) -> tuple[int, ...]:
    """The sizes of `2,4-6`; none when it is no such list."""
    sizes: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            return ()
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low:
            return ()
        sizes |= set(range(low, high + 1))
    return tuple(sorted(sizes))


def _columns(arguments: argparse.Namespace) -> Columns:
    return Columns(
        arrival=arguments.arrival_column,
        input=arguments.input_column,
        output=arguments.output_column,
        cached=arguments.cached_column,
        speed=arguments.speed_column,
        unit=arguments.time_unit,
    )


def _effort(arguments: argparse.Namespace) -> Effort:
    return Effort(
        statics=() if arguments.static is None else _sizes(arguments.static),
        as_written=arguments.as_written,
        jobs=arguments.jobs,
    )


def _weights(
    planned: Sequence[Planned], given: Sequence[str], speed_column: str | None
) -> tuple[tuple[float, ...], list[str]]:
    """The weight of each tier, none where one tier has all or the trace says it; and what is wrong."""
    if not given:
        if len(planned) > 1 and speed_column is None:
            listed = ", ".join(each.case.name for each in planned)
            return (), [
                f"the files hold {len(planned)} tiers ({listed}), and nothing says which requests go to which; name the "
                "trace's column by --speed-column, or give each its part by --share TIER=WEIGHT"
            ]
        return (), []
    errors: list[str] = []
    weights: dict[str, float] = {}
    for text in given:
        word, _, number = text.rpartition("=")
        names = [
            each.case.name
            for each in planned
            if word in (each.case.name, each.case.name.rpartition("/")[2], each.case.speed)
        ]
        if len(names) != 1:
            errors.append(f"--share {text}: {'no' if not names else 'more than one'} tier is called {word!r}")
        elif not re.fullmatch(r"[0-9]*\.?[0-9]+", number) or float(number) <= 0:
            errors.append(f"--share {text}: a weight above zero is expected, as in {word}=0.2")
        elif names[0] in weights:
            errors.append(f"--share {text}: {names[0]} has a share already")
        else:
            weights[names[0]] = float(number)
    missing = [each.case.name for each in planned if each.case.name not in weights]
    if missing and not errors:
        errors.append(f"--share: {', '.join(missing)} has none; give each tier of the files one")
    return tuple(weights.get(each.case.name, 0.0) for each in planned), errors


def _plot(found: Sequence[Found], path: Path) -> int:
    try:
        plot.draw(found, path)
    except OSError as error:
        print(f"error: {path} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return 0
