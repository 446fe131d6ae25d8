"""Reads Markdown: links, paths and code blocks, and runs the commands of a block as a reader would type them."""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
_PARSER = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True)
class Block:
    """One fenced code block; ``labels`` are the ``key=value`` words behind the language."""

    file: Path
    line: int
    language: str
    labels: Mapping[str, str]
    text: str

    @property
    def place(self) -> str:
        """File and line, for messages."""
        return f"{self.file.relative_to(ROOT) if self.file.is_relative_to(ROOT) else self.file}:{self.line}"


def documents(root: Path = ROOT) -> list[Path]:
    """The project's Markdown files: those at the top and all below docs/."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def blocks(file: Path, text: str | None = None) -> list[Block]:
    """The fenced blocks of a document, in order. Raises ValueError for a label that is no ``key=value``."""
    found = []
    for token in _PARSER.parse(file.read_text(encoding="utf-8") if text is None else text):
        if token.type != "fence":
            continue
        language, *words = token.info.split() or [""]
        line = (token.map or [0])[0] + 1
        if odd := [word for word in words if "=" not in word]:
            raise ValueError(f"{file}:{line}: {odd[0]!r} behind {language!r} is no key=value")
        labels = dict(word.split("=", 1) for word in words)
        found.append(Block(file, line, language, labels, token.content))
    return found


def links(text: str) -> list[str]:
    """Targets of all links and images."""
    return [
        str(value)
        for token in _inline(text)
        for name, value in token.attrs.items()
        if (token.type, name) in (("link_open", "href"), ("image", "src"))
    ]


def code_words(text: str) -> list[str]:
    """Every piece of inline code."""
    return [token.content for token in _inline(text) if token.type == "code_inline"]


def anchors(text: str) -> set[str]:
    """The anchors that hosting sites make of the headings."""
    tokens = _PARSER.parse(text)
    titles = [after.content for before, after in pairwise(tokens) if before.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def commands(block: Block) -> list[str]:
    """The commands of a ``console`` block: lines that begin with ``$``, and those that continue them.

    Raises ValueError when there is none.
    """
    found: list[str] = []
    continued = False
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(line[2:])
        elif continued:
            found[-1] += f"\n{line}"
        else:
            continue
        continued = line.endswith("\\")
    if not found:
        raise ValueError(f"{block.place}: no line begins with '$ '")
    return found


def story(name: str, root: Path = ROOT) -> list[Block]:
    """The ``console`` blocks marked ``test=name``, in the order in which a reader meets them.

    Raises LookupError when no document has one.
    """
    found = [block for file in documents(root) for block in blocks(file) if block.labels.get("test") == name]
    if not found:
        raise LookupError(f"no document has a block marked test={name}")
    return found


def stories(root: Path = ROOT) -> set[str]:
    """The names of all stories."""
    return {
        block.labels["test"] for file in documents(root) for block in blocks(file) if "test" in block.labels
    }


def run_story(
    name: str,
    cwd: Path,
    env: Mapping[str, str],
    replacing: Mapping[str, str] | None = None,
    timeout_s: float = 600,
) -> str:
    """Run a story's commands in one shell each, in order; gives all that they printed.

    ``replacing`` exchanges words of the commands (a file, a timeout) and every one of them must occur.

    Raises:
        LookupError: no such story, or a word to replace that no command holds.
        AssertionError: a command failed; the message holds its place and its output.
    """
    unused = set(replacing or {})
    said = []
    for block in story(name):
        for command in commands(block):
            for word, instead in (replacing or {}).items():
                if word in command:
                    unused.discard(word)
                    command = command.replace(word, instead)
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                cwd=cwd,
                env=dict(env),
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
            said.append(done.stdout)
            assert done.returncode == 0, f"{block.place}: {command}\n{done.stdout}{done.stderr}"
    if unused:
        raise LookupError(f"no command of the story {name} holds {sorted(unused)}")
    return "".join(said)


def _inline(text: str) -> Iterator[Token]:
    children: Sequence[Token] = _PARSER.parse(text)
    for token in children:
        yield from token.children or ()
