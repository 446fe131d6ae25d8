"""The flags of ``tierwright plan``; the command itself is loaded when it is run."""

import argparse
import os
from pathlib import Path
from typing import Any

from tierwright.planning.measured import MEASURED
from tierwright.planning.trace_rows import UNITS


def add_command(commands: "argparse._SubParsersAction[Any]") -> None:
    """The command and its flags."""
    plan = commands.add_parser(
        "plan",
        help="replay a trace of requests in a model of tiers: replicas over time, hours, cost, attainment",
        description="Replay a trace of requests in a model of the tiers' fleets, with static sizes and with the "
        "autoscaler's own decisions, and find the cheapest setting that keeps the objectives. Exit 1 with all errors at once.",
    )
    add = plan.add_argument
    add(
        "--trace",
        required=True,
        metavar="FILE",
        help="CSV with a header and one request per line, or JSON Lines, also gzipped; - for stdin",
    )
    add(
        "-f",
        "--filename",
        action="append",
        required=True,
        help="file with InferenceTiers, - for stdin; may be repeated",
    )
    columns = plan.add_argument_group("what the trace's columns hold (default: names that public traces use)")
    add = columns.add_argument
    add("--arrival-column", metavar="NAME", help="when a request came: a number, or a date")
    add("--input-column", metavar="NAME", help="prompt tokens")
    add("--output-column", metavar="NAME", help="output tokens")
    add("--cached-column", metavar="NAME", help="prompt tokens that a cache serves (default: none are)")
    add("--speed-column", metavar="NAME", help="the speed or the tier that a request asks for")
    add(
        "--time-unit",
        choices=list(UNITS),
        help="of the arrivals (default: by the column's name, arrival_ms; else s)",
    )
    model = plan.add_argument_group("the model")
    add = model.add_argument
    add(
        "--share",
        action="append",
        default=[],
        metavar="TIER=WEIGHT",
        help="part of the trace that goes to a tier, by its name or speed; once per tier",
    )
    add(
        "--step-time",
        action="append",
        default=[],
        metavar="[TIER:]VALUE",
        help="step time of all tiers or one, as fixed=11.5ms,batch=38us,context=79ns,prefill=60us or one that was "
        f"measured: {', '.join(MEASURED)} (default: what is believed of the accelerator)",
    )
    add(
        "--step-times",
        action="append",
        default=[],
        metavar="FILE",
        help="YAML file that maps a tier's name to such a value",
    )
    add(
        "--start",
        type=int,
        metavar="REPLICAS",
        help="replicas of each tier when the trace begins (default: what its first ten minutes need)",
    )
    add(
        "--warm-up",
        default="0s",
        metavar="DURATION",
        help="beginning of the trace that is replayed and not counted",
    )
    add("--seed", type=int, default=1, help="of the draw that --share makes")
    effort = plan.add_argument_group("what is compared")
    add = effort.add_argument
    add(
        "--static",
        metavar="SIZES",
        help="fixed numbers of replicas to compare, such as 2,4-6 (default: search for the fewest that do)",
    )
    add(
        "--as-written",
        action="store_true",
        help="only the tier's own minReplicas, attainment and stabilization, no others",
    )
    add(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="replays at once (default: one per core)",
    )
    output = plan.add_argument_group("output")
    add = output.add_argument
    add("--json", action="store_true", help="print JSON in place of the table")
    add(
        "--plot",
        type=Path,
        metavar="FILE",
        help="draw replicas and attainment over time into an .svg or .png; needs matplotlib",
    )
    plan.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from tierwright.cli.plan.command import run

    return run(arguments)
