"""Decides which part of an answer is a call of a tool, in the format that the model's chat template teaches it.

A call is taken as one when it is complete and well-formed; what is not stays text, so that nothing the model says is lost.
"""

import json
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

PYTHON_TAG = "<|python_tag|>"
TOOL_CALLS = "[TOOL_CALLS]"
CALL_ID, ARGS = "[CALL_ID]", "[ARGS]"
OPENING, CLOSING = "<tool_call>", "</tool_call>"


class ToolCallFormat(StrEnum):
    """How a model writes calls: Hermes and Qwen, Llama 3.1 and later, Mistral."""

    HERMES = "hermes"
    LLAMA = "llama"
    MISTRAL = "mistral"


MARKS = {
    ToolCallFormat.HERMES: (OPENING, CLOSING),
    ToolCallFormat.LLAMA: (PYTHON_TAG,),
    ToolCallFormat.MISTRAL: (TOOL_CALLS, CALL_ID, ARGS),
}
"""What a format is told by; where a tokenizer has such a text as a special token, it must be shown to the reader."""


def format_of(template: str) -> ToolCallFormat | None:
    """The format that a chat template (its source) teaches; None where it is none of those that are read."""
    if TOOL_CALLS in template:
        return ToolCallFormat.MISTRAL
    # Qwen3-Coder writes XML between the same tags.
    if OPENING in template:
        return None if "<function=" in template else ToolCallFormat.HERMES
    if PYTHON_TAG in template or '{"name": function name, "parameters"' in template:
        return ToolCallFormat.LLAMA
    return None


@dataclass(frozen=True)
class ToolCall:
    """One call: the tool's name, its arguments as JSON text of an object, and the id where the model wrote one."""

    name: str
    arguments: str
    id: str | None = None


@dataclass(frozen=True)
class Read:
    """What became certain: text to show, and calls; the text comes before the calls."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


OPENINGS = {
    ToolCallFormat.HERMES: f"{OPENING}\n",
    ToolCallFormat.LLAMA: "",
    ToolCallFormat.MISTRAL: f"{TOOL_CALLS} [",
}
"""How a turn begins that must be a call: with it the model goes on as it was taught, with an object of name and arguments."""


def arguments_key(form: ToolCallFormat) -> str:
    """What the arguments are called in a call's object."""
    return "parameters" if form is ToolCallFormat.LLAMA else "arguments"


class ForcedCallReader:
    """Reads an answer that is kept to be the object of one call; one that was cut short stays text."""

    def __init__(self, form: ToolCallFormat) -> None:
        self._key = arguments_key(form)
        self._text = ""

    def push(self, text: str) -> list[Read]:
        """Add text; nothing is shown before the object is whole."""
        self._text += text
        return []

    def flush(self) -> list[Read]:
        """The call, once the answer has ended."""
        call = _call_of(_decoded(self._text), self._key)
        return [Read(self._text) if call is None else Read(calls=(call,))]


class ToolCallReader:
    """Reads one answer piece by piece. White space before and between calls is dropped with them."""

    def __init__(self, form: ToolCallFormat, names: AbstractSet[str], most: int | None = None) -> None:
        """`names`: the tools that the request offers. `most`: calls to read at most; further ones are dropped."""
        self._form, self._names, self._most = form, names, most
        self._held = ""
        self._taken = 0
        self._began = False

    def push(self, text: str) -> list[Read]:
        """Add text."""
        self._held += text
        if self._form is ToolCallFormat.HERMES:
            return self._hermes(final=False)
        if self._form is ToolCallFormat.MISTRAL:
            return self._show_before(TOOL_CALLS)
        return self._llama_text()

    def flush(self) -> list[Read]:
        """What is left once the answer has ended."""
        if self._form is ToolCallFormat.HERMES:
            return self._hermes(final=True)
        held, self._held = self._held, ""
        if self._form is ToolCallFormat.MISTRAL and held.lstrip().startswith(TOOL_CALLS):
            return self._all_or_text(_mistral_calls(held), held)
        if self._form is ToolCallFormat.LLAMA and not self._began:
            return self._all_or_text(_llama_calls(held, self._names), held)
        return [Read(held)] if held else []

    def _hermes(self, *, final: bool) -> list[Read]:
        found: list[Read] = []
        while True:
            found += self._show_before(OPENING)
            if not self._held.lstrip().startswith(OPENING):
                break
            read = self._one_call(final=final)
            if read is None:
                break
            found.append(read)
        if final:
            # White space behind a call belongs to it.
            rest, self._held = self._held if not self._taken else self._held.rstrip(), ""
            found += [Read(rest)] if rest else []
        return found

    def _one_call(self, *, final: bool) -> Read | None:
        """The call that the held text begins with; None while it is not complete."""
        start = self._held.index(OPENING) + len(OPENING)
        end = self._held.find(CLOSING, start)
        last = -1
        while end >= 0:
            call = _call_of(_decoded(self._held[start:end]), "arguments")
            last = end + len(CLOSING)
            if call is not None:
                self._held = self._held[last:]
                return self._taking((call,))
            if self._held[last:].lstrip().startswith(OPENING):
                return self._as_text(last)
            # The text of an argument may hold the closing tag.
            end = self._held.find(CLOSING, last)
        if not final:
            return None
        # Some models end their turn instead of closing the tag.
        call = _call_of(_decoded(self._held[start:]), "arguments") if last < 0 else None
        if call is None:
            return self._as_text(len(self._held) if last < 0 else last)
        self._held = ""
        return self._taking((call,))

    def _as_text(self, end: int) -> Read:
        text, self._held = self._held[:end], self._held[end:]
        return Read(text)

    def _show_before(self, mark: str) -> list[Read]:
        """Show what cannot belong to a call; the white space before a mark waits with it."""
        if self._held.lstrip().startswith(mark):
            return []
        at = self._held.find(mark)
        shown = len(self._held) - _beginning(self._held, mark) if at < 0 else at
        shown = len(self._held[:shown].rstrip())
        text, self._held = self._held[:shown], self._held[shown:]
        return [Read(text)] if text else []

    def _llama_text(self) -> list[Read]:
        """A call is all that such an answer holds, so its first letters decide."""
        start = self._held.lstrip()
        may_call = start.startswith("{") or PYTHON_TAG.startswith(start[: len(PYTHON_TAG)])
        if may_call and not self._began:
            return []
        self._began = True
        text, self._held = self._held, ""
        return [Read(text)] if text else []

    def _all_or_text(self, calls: tuple[ToolCall, ...], text: str) -> list[Read]:
        if calls:
            return [self._taking(calls)]
        return [Read(text)] if text else []

    def _taking(self, calls: tuple[ToolCall, ...]) -> Read:
        left = len(calls) if self._most is None else max(0, self._most - self._taken)
        self._taken += len(calls)
        return Read(calls=calls[:left])


def _beginning(text: str, mark: str) -> int:
    """Length of the longest end of `text` that is a beginning of `mark`."""
    return next(
        (size for size in range(min(len(mark) - 1, len(text)), 0, -1) if text.endswith(mark[:size])), 0
    )


def _mistral_calls(text: str) -> tuple[ToolCall, ...]:
    """A list of objects behind one mark, or a mark, a name and its arguments for each call; () unless all of it is that."""
    parts = [part.strip() for part in text.strip().split(TOOL_CALLS)[1:]]
    if len(parts) == 1 and parts[0].startswith("["):
        listed = _decoded(parts[0])
        found = [_call_of(entry, "arguments") for entry in listed] if isinstance(listed, list) else []
    else:
        found = [_named_call(part) for part in parts]
    calls = tuple(call for call in found if call is not None)
    return calls if len(calls) == len(found) else ()


def _named_call(text: str) -> ToolCall | None:
    """`name[CALL_ID]id[ARGS]{...}`, of which the id, or both marks, may be left out."""
    at = text.find("{")
    if at < 0:
        return None
    name, _, given = text[:at].removesuffix(ARGS).partition(CALL_ID)
    call = _call_of({"name": name.strip(), "arguments": _decoded(text[at:])}, "arguments")
    if call is None or not call.name:
        return None
    return ToolCall(call.name, call.arguments, given.strip() or None)


def _llama_calls(text: str, names: AbstractSet[str]) -> tuple[ToolCall, ...]:
    """Objects, apart by semicolons or white space; () unless each is a call of a tool that is offered."""
    rest = text.strip().removeprefix(PYTHON_TAG).strip()
    calls: list[ToolCall] = []
    while rest:
        try:
            value, end = _DECODER.raw_decode(rest)
        except (ValueError, RecursionError):
            return ()
        key = "parameters" if isinstance(value, dict) and "parameters" in value else "arguments"
        call = _call_of(value, key)
        # Such an object may as well be what the user asked for.
        if call is None or call.name not in names:
            return ()
        calls.append(call)
        rest = rest[end:].lstrip("; \t\r\n")
    return tuple(calls)


def _call_of(value: Any, key: str) -> ToolCall | None:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    arguments = value.get(key, {})
    if isinstance(arguments, str):
        arguments = _decoded(arguments)
    if not isinstance(arguments, dict):
        return None
    given = value.get("id")
    call = ToolCall(
        value["name"],
        json.dumps(arguments, ensure_ascii=False),
        given if isinstance(given, str) and given else None,
    )
    # Half a character, written as an escape, is a string to Python and nothing that can be sent.
    return call if _sendable(f"{call.name}{call.arguments}{call.id}") else None


def _sendable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decoded(text: str) -> Any:
    """The JSON value of a text, None for what is none."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
