"""extraArgs against the engine's own parser: what passes the rules sets no typed field, and what is free is not refused."""

import argparse
import contextlib
import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dev.engine_sim.cli import argument_table
from tests.support.worker_flags import flags_of
from tierwright.api.rules.extra_args import GROUPS, flag_name, sets
from tierwright.engines.jax_arguments import PROGRAM_EXTRAS

TABLE = argument_table()
OWNED = {flag for group in GROUPS for flag in group.flags}


def abbreviating_parser() -> argparse.ArgumentParser:
    """A parser of the engine's flags that completes abbreviated names, as argparse does by default."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    for entry in TABLE:
        options: dict[str, Any] = {"default": None, "dest": entry["names"][0]}
        if entry.get("negatable"):
            options["action"] = argparse.BooleanOptionalAction
        elif entry["values"] == "none":
            options |= {"action": "store_const", "const": True}
        else:
            options["nargs"] = {"one": None, "optional": "?", "many": "+"}[entry["values"]]
        parser.add_argument(*entry["names"], **options)
    return parser


PARSER = abbreviating_parser()
NAMES = [name for entry in TABLE for name in entry["names"]] + [
    f"--no-{entry['names'][0][2:]}" for entry in TABLE if entry.get("negatable")
]


def set_by(arguments: list[str]) -> set[str]:
    """The flags that the parser sets, by their first name; none when it refuses the command line."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            parsed, _ = PARSER.parse_known_args(arguments)
    except (argparse.ArgumentError, SystemExit):
        return set()
    return {name for name, value in vars(parsed).items() if value is not None}


def refused(argument: str) -> bool:
    return any(sets(group, argument) for group in GROUPS)


def undashed(argument: str) -> str:
    name, equals, value = argument.partition("=")
    return "--" + name[2:].replace("_", "-") + equals + value if name.startswith("--") else argument


@settings(max_examples=300)
@given(
    name=st.sampled_from(NAMES),
    cut=st.integers(1, 40),
    tail=st.sampled_from(["", "=1", "1", ".a=1"]),
    under=st.booleans(),
)
def test_no_spelling_of_an_owned_flag_gets_past_the_rules(
    name: str, cut: int, tail: str, under: bool
) -> None:
    argument = name[:cut]
    if under and argument.startswith("--"):
        argument = "--" + argument[2:].replace("-", "_")
    argument += tail
    if not refused(argument):
        read = undashed(argument).replace(".a=1", "=1")
        assert not set_by([read, "1"]) & OWNED, argument


def test_every_owned_flag_is_one_that_an_engine_knows() -> None:
    known = {*NAMES, "--help", "-h", *flags_of("serve")}
    assert known >= OWNED, OWNED - known


def test_every_flag_of_the_worker_that_a_field_sets_is_owned() -> None:
    """A new flag of the worker is either set by a typed field, and refused here, or free on purpose."""
    free = {name for name in flags_of("serve") if not refused(name)}
    assert free == {
        "--max-num-queued-reqs",
        "--max-num-queued-tokens",
        "--layered-entropy",
        "--layered-share",
        "--prompt-cache-device-pages",
        "--prompt-cache-host-pages",
        "--api-key",
        *PROGRAM_EXTRAS,
    }


def test_every_free_flag_that_programs_depend_on_reaches_the_compile_run_too() -> None:
    """Else the Job would fill the volume with programs that no pod looks for."""
    assert {name for name in flags_of("compile") if not refused(name)} == set(PROGRAM_EXTRAS)


def test_every_other_flag_of_the_engine_is_free() -> None:
    owned = {name for entry in TABLE if set(entry["names"]) & OWNED for name in entry["names"]}
    free = [name for name in NAMES if name not in owned and f"--{name[5:]}" not in owned]
    assert len(free) > 250
    assert [name for name in free if refused(name)] == []


@pytest.mark.parametrize("argument", ["-", "--", "x", "=", "3", "-1", "{}"])
def test_a_value_is_not_taken_for_a_flag(argument: str) -> None:
    assert not refused(argument)


def test_the_name_is_read_without_value_and_path() -> None:
    assert flag_name("--speculative_config.method=a_b") == "--speculative-config"
