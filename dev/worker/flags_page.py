"""Writes docs/reference/worker-flags.md from the worker's own command line, or says that the two differ.

``python -m dev.worker.flags_page`` writes, ``python -m dev.worker.flags_page --check`` compares and exits 1 on a difference.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tierwright_worker.cli.flags import parser

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "worker-flags.md"
_HEAD: Final = """\
# Flags of the JAX worker

Made from the command line itself by `python -m dev.worker.flags_page`; edits here are lost. Flags are spelt as vLLM spells
them where it has the same. A tier sets them from its typed fields; `spec.engine.extraArgs` takes what has none. What the
exit statuses mean stands in [worker/README.md](../../worker/README.md).
"""


def page() -> str:
    """The page's text."""
    root = parser()
    commands: dict[str, argparse.ArgumentParser] = {}
    words: dict[str, str] = {}
    for action in root._actions:
        if isinstance(action, argparse._SubParsersAction):
            commands = dict(action.choices)
            words = {choice.dest: choice.help or "" for choice in action._choices_actions}
    parts = [_HEAD]
    seen: dict[tuple[str, ...], str] = {}
    for name, command in commands.items():
        parts.append(f"\n## `tierwright-worker {name}`\n\n{_sentence(words[name])}\n")
        rows = list(_rows(command))
        shared = [row for row in rows if seen.get(row) is not None]
        if shared:
            first = seen[shared[0]]
            parts.append(
                f"\nTakes {len(shared)} flags of `{first}` as well: {', '.join(row[0] for row in shared)}.\n"
            )
        own = [row for row in rows if row not in shared]
        if own:
            parts.append("\n| flag | values | default | what it says |\n|---|---|---|---|\n")
            parts += [f"| {' | '.join(row)} |\n" for row in own]
        seen.update(dict.fromkeys(own, name))
    return "".join(parts)


def _rows(command: argparse.ArgumentParser) -> Iterator[tuple[str, str, str, str]]:
    for action in command._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        if action.choices is not None:
            values = ", ".join(f"`{choice}`" for choice in action.choices)
        elif action.nargs == 0:
            values = "a switch"
        else:
            values = f"`{action.metavar}`" if isinstance(action.metavar, str) else _kind(action.type)
        values += ", several" if action.nargs == "+" or isinstance(action, argparse._AppendAction) else ""
        default = "required" if action.required else _default(action.default)
        yield (
            f"`{action.option_strings[-1]}`",
            values,
            default,
            _sentence((action.help or "").replace("|", "\\|")),
        )


def _kind(of: Any) -> str:
    name = getattr(of, "__name__", "str").strip("_")
    known = {
        "Path": "path",
        "int": "number",
        "float": "number",
        "positive": "number from 1",
        "count": "number from 0",
        "drafts": "number from 0 to 64",
        "pages": "number from 0",
        "port": "number from 0 to 65535",
        "seconds": "number from 0",
        "lifetime": "number above 0",
        "new_file": "path",
        "text": "text",
    }
    return {**known, "sizes": "numbers with commas", "str": "text"}.get(name, name)


def _default(value: Any) -> str:
    if value is None or value in ([], (), ""):
        return "-"
    if isinstance(value, list | tuple):  # as it is written on the command line
        value = ",".join(map(str, value))
    return f"`{value}`"


def _sentence(text: str) -> str:
    first = text.split(" ", 1)[0]
    shown = text if "://" in first else text[:1].upper() + text[1:]
    return shown + ("" if text.endswith(".") else ".")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit status."""
    options = argparse.ArgumentParser(prog="python -m dev.worker.flags_page", description=__doc__)
    options.add_argument("--check", action="store_true", help="write nothing, exit 1 when the page differs")
    wanted = page()
    if not options.parse_args(arguments).check:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != wanted:
        print(f"{PAGE} differs from the command line; run: python -m dev.worker.flags_page", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
