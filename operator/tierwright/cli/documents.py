"""Reads files of Kubernetes objects for the command line, document by document, and prints what a command made of them."""

import io
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tierwright.api.tier import GROUP, KIND
from tierwright.cli import yaml_text

STDIN: Final = "-"
_DOCUMENT_START: Final = re.compile(r"^(?=---(?:\s|$))", re.MULTILINE)


@dataclass(frozen=True)
class Input:
    """The text of one file."""

    name: str
    text: str


@dataclass(frozen=True)
class Document:
    """The content of one document, or of one item of a list, and where it stands."""

    where: str
    content: Any


@dataclass(frozen=True)
class Problem:
    """Something to say about one document."""

    where: str
    words: str

    def __str__(self) -> str:
        return f"{self.where}: {self.words}"


def documents(source: Input) -> Iterator[Document | Problem]:
    """Each document by itself, so that one that cannot be read hides none of the others."""
    line = 0
    number = 0
    for text in _DOCUMENT_START.split(source.text):
        try:
            content = yaml_text.load(text, line)
        except yaml_text.UnreadableError as error:
            number += 1
            yield Problem(f"{source.name}, document {number}", f"cannot be read as YAML: {error}")
        else:
            if content is not None:
                number += 1
                yield from _items(f"{source.name}, document {number}", content)
        line += text.count("\n")


def _items(where: str, content: Any) -> Iterator[Document]:
    """The document, or the items of a list as ``kubectl get -o yaml`` prints it."""
    if isinstance(content, dict) and content.get("kind") == "List" and isinstance(content.get("items"), list):
        for index, item in enumerate(content["items"]):
            yield Document(f"{where}, items[{index}]", item)
    else:
        yield Document(where, content)


def is_something_else(content: Any) -> bool:
    """Whether a document is an object of another kind, such as a ConfigMap beside the tiers."""
    if not isinstance(content, dict) or not content.get("kind"):
        return False
    return content["kind"] != KIND and not str(content.get("apiVersion")).startswith(f"{GROUP}/")


def read(names: Iterable[str]) -> tuple[list[Input], list[str]]:
    """The files' texts, ``-`` for stdin, and what is wrong with those that cannot be read."""
    inputs: list[Input] = []
    errors: list[str] = []
    for name in names:
        try:
            text = sys.stdin.read() if name == STDIN else Path(name).read_text(encoding="utf-8")
        except OSError as error:
            errors.append(f"{name}: cannot be read: {error.strerror}")
        except UnicodeDecodeError:
            errors.append(f"{name}: is no UTF-8 text")
        else:
            inputs.append(Input("stdin" if name == STDIN else name, text))
    return inputs, errors


def emit(text: str) -> int:
    """Writes to stdout; 1 when whoever reads it went away or the disk is full."""
    try:
        # YAML is UTF-8, whatever the terminal's own encoding.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        print(f"error: the output cannot be written: {error.strerror}", file=sys.stderr)
        # The interpreter flushes once more when it ends, and would say the same in its own way.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0
