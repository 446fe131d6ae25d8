"""Reads and writes YAML for the command line: whatever a document holds, it gives plain data or one error with its place.

PyYAML itself raises all kinds of errors, follows aliases without end, and passes over keys that stand twice.
"""

from collections.abc import Hashable, Iterable
from typing import Any, Final

import yaml

MOST_VALUES: Final = 1_000_000
"""Values in one document once its aliases are followed: far more than any file of tiers, far less than memory holds."""
_ONE_LINE: Final = 1 << 20
_TAGS: Final = "tag:yaml.org,2002:"


class UnreadableError(Exception):
    """A document that is no YAML, or more than a document may be; the message says what and where."""


def load(text: str, first_line: int = 0) -> Any:
    """The plain data of one document; ``first_line`` is the number of lines of the file before it.

    Raises:
        UnreadableError: the text cannot be read; its message names line and column where they are known.
    """
    try:
        content = yaml.load(text, Loader=_Loader)  # noqa: S506 - made from the safe loader
    except yaml.reader.ReaderError as error:
        place = _place(first_line + text.count("\n", 0, error.position), None)
        raise UnreadableError(f"{place}: the character {error.character:#x} is not allowed") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{_place(first_line + mark.line, mark.column)}: " if mark is not None else ""
        raise UnreadableError(f"{place}{error.problem}") from error
    except yaml.YAMLError as error:
        raise UnreadableError(str(error)) from error
    except RecursionError as error:
        raise UnreadableError("it is nested too deeply") from error
    if _is_endless(content):
        raise UnreadableError(
            f"it holds more than {MOST_VALUES:,} values once its aliases are followed; write them out, and fewer"
        )
    return content


def dump(documents: Iterable[dict[str, Any]]) -> str:
    """The documents as YAML, fields in their own order, texts of several lines as blocks."""
    text: str = yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=_ONE_LINE, allow_unicode=True
    )
    return text


def _place(line: int, column: int | None) -> str:
    return f"line {line + 1}" if column is None else f"line {line + 1}, column {column + 1}"


def _is_endless(content: Any) -> bool:
    """Whether the data is too large to be written out; a value that holds itself is."""
    seen = 0
    pending = [content]
    while pending:
        value = pending.pop()
        members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        seen += len(members)
        if seen > MOST_VALUES:
            return True
        pending.extend(members)
    return False


class _Loader(yaml.SafeLoader):
    """Refuses what YAML readers pass over in silence: a key that stands twice, and a key that is no text."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """A date such as 2024-99-99 or a number of 5000 digits ends the safe loader with errors of Python's own."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError) as error:
            kind = str(node.tag).removeprefix(_TAGS)
            raise _bad_node(node, f"this cannot be read as YAML's {kind}; quote it if it is text") from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _bad_node(key, "a key must be text")
            if key.tag not in (f"{_TAGS}str", f"{_TAGS}merge"):
                raise _bad_node(key, f"YAML does not read the key {key.value} as text; {_instead(key.value)}")
            if key.value in keys:
                raise _bad_node(key, f"the key {key.value} stands twice; remove one")
            keys.add(key.value)
        return super().construct_mapping(node, deep)


def _instead(key: str) -> str:
    """What to write for a key that YAML takes for something else: ``on``, which is true to it, has a name of its own."""
    return "the field is called when" if key.lower() == "on" else f'quote it: "{key}"'


def _bad_node(node: yaml.Node, words: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=words, problem_mark=node.start_mark)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no anchors."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - no object is written by reference
        return True


def _text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_Dumper.add_representer(str, _text)
