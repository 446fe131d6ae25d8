"""Reads the frozen set of benchmark requests, and refuses one that was changed."""

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

# A figure means something only beside others of the same prompts: a change of the set is a change of this line.
PROMPTS_SHA256 = "7bc926c10aa9c859abfd085b7d95c69097a01b91bf8bc45082dbb39e480481b5"
PROMPTS_FILE = Path(__file__).with_name("prompts.jsonl")


class Kind(StrEnum):
    """What a prompt asks for. LOAD is what keeps other slots busy; it is not measured."""

    EDIT = "edit"
    COPY = "copy"
    PROSE = "prose"
    LOAD = "load"


MEASURED = (Kind.EDIT, Kind.COPY, Kind.PROSE)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request: what the user says, and the most tokens of an answer, which may end earlier.

    `opening` and `closing`: as editors do, a request for a file begins the answer with an open fence, and takes the
    closing one for its end. Both are empty where the answer is free text.
    """

    id: str
    kind: Kind
    text: str
    max_tokens: int
    opening: str = ""
    closing: str = ""


def read_prompts(path: Path = PROMPTS_FILE, sha256: str = PROMPTS_SHA256) -> tuple[Prompt, ...]:
    """The prompts in the order of the file.

    Raises:
        ValueError: the file is not the one that `sha256` (hex) names, or an id or a text stands twice.
    """
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(f"{path} was changed: its SHA-256 is {found}, not {sha256}")
    prompts = tuple(_prompt(line) for line in content.decode().splitlines())
    for field in ("id", "text"):
        values = [getattr(prompt, field) for prompt in prompts]
        if len(set(values)) != len(values):
            raise ValueError(f"{path}: two prompts have the same {field}")
    return prompts


def _prompt(line: str) -> Prompt:
    fields = json.loads(line)
    return Prompt(
        id=fields["id"],
        kind=Kind(fields["kind"]),
        text=fields["text"],
        max_tokens=int(fields["max_tokens"]),
        opening=fields.get("opening", ""),
        closing=fields.get("closing", ""),
    )
