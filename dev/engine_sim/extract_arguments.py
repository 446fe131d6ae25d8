"""Writes the table of vLLM's command line arguments from a saved `vllm serve --help=all` page.

Usage: python -m dev.engine_sim.extract_arguments HELP_FILE > dev/engine_sim/vllm_arguments.json
The table holds facts only (spellings, how many values, fixed choices, JSON or human-readable integer), no help text.
"""

import json
import re
import sys
from pathlib import Path

SPELLING = re.compile(
    r"(?P<flag>--?[a-zA-Z][\w-]*)(?: (?P<operand>\[.*\]|\{.*?\}(?: \[.*\])?|[A-Z][A-Z0-9_]*(?: \[.*\])?))?"
)
# A list in square brackets shows known values of an open set: argparse takes any value there.
OPEN_CHOICES = re.compile(r" \['[^]]*'\]$")
OPEN_SET = " or name registered in"


def arguments_of(page: str) -> list[dict[str, object]]:
    """The table of a whole help page, in the page's order, without `-h`."""
    chunks = re.split(r"\n(?=  -|[A-Z]\w+:\n)", page)
    entries = [entry_of(chunk) for chunk in chunks if chunk.startswith("  -")]
    return [entry for entry in entries if "--help" not in _names(entry)]


def entry_of(chunk: str) -> dict[str, object]:
    """The table entry of one option with its description.

    `values` is "none", "one", "optional" (zero or one) or "many" (one or more); `kind` is "json" or "integer".
    """
    line, _, description = chunk.partition("\n")
    signature, *opening = re.split(r" {2,}", line.strip(), maxsplit=1)
    is_open = OPEN_SET in signature
    signature = signature.split(OPEN_SET)[0]
    has_known_values = OPEN_CHOICES.search(signature) is not None
    signature = OPEN_CHOICES.sub("", signature)
    matches = list(SPELLING.finditer(signature))
    spellings = [match["flag"] for match in matches]
    operand = next((match["operand"] for match in matches if match["operand"]), None)
    entry: dict[str, object] = {"names": [name for name in spellings if not name.startswith("--no-")]}
    if any(name.startswith("--no-") for name in spellings):
        entry["negatable"] = True
    entry["values"] = "one" if has_known_values else _values_of(operand)
    if operand and operand.startswith("{") and not is_open:
        entry["choices"] = operand[1 : operand.index("}")].split(",")
    words = " ".join([*opening, *description.split()])
    if "valid JSON string" in words:
        entry["kind"] = "json"
    elif "human-readable integers" in words:
        entry["kind"] = "integer"
    return entry


def _values_of(operand: str | None) -> str:
    if operand is None:
        return "none"
    if operand.startswith("["):
        return "optional"
    return "many" if operand.endswith("...]") else "one"


def _names(entry: dict[str, object]) -> list[str]:
    names = entry["names"]
    return names if isinstance(names, list) else []


def main() -> None:
    """Read the help page named on the command line and print the table, one argument a line."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m dev.engine_sim.extract_arguments HELP_FILE")
    entries = arguments_of(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print("[\n" + ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries) + "\n]")


if __name__ == "__main__":
    main()
