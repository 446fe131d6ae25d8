"""What a model's tokens say: their bytes for answers, and the marks by which its template lets it call tools."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from tierwright_worker.engine.grammar import Grammar, Grammars
from tierwright_worker.engine.policies.tool_calls import (
    MARKS,
    OPENINGS,
    ForcedCallReader,
    ToolCallFormat,
    ToolCallReader,
    arguments_key,
    format_of,
)
from tierwright_worker.server.asked import Asked, Conversation, RawPrompt
from tierwright_worker.server.errors import bad_request
from tierwright_worker.tokenizer.text import TextCodec
from tierwright_worker.tokenizer.token_bytes import token_bytes

# Mistral's templates take ids of nine letters and digits alone.
MISTRAL_ID = 9


class Vocabulary:
    """One model's tokens, by id."""

    def __init__(self, codec: TextCodec) -> None:
        self.table = token_bytes(codec.tokenizer)
        template = codec.chat_template
        self._form = None if template is None else format_of(template.source)
        marked = list(self.table)
        for mark in () if self._form is None else MARKS[self._form]:
            token = codec.tokenizer.token_to_id(mark)
            if token is not None:
                marked[token] = mark.encode()
        self._marked = tuple(marked)
        self._tokenizer = codec.tokenizer
        self._grammars: Grammars | None = None

    def shown(self, asked: Asked) -> Sequence[bytes]:
        """The bytes to decode an answer with: where tools may be called, the special tokens that mark a call have text."""
        return self._marked if asked.tool_names else self.table

    def reader(self, asked: Asked) -> ToolCallReader | ForcedCallReader | None:
        """What finds calls in an answer; None where none may be made, or the template's format is not known."""
        if self._form is None or not asked.tool_names:
            return None
        if asked.forced:
            return ForcedCallReader(self._form)
        return ToolCallReader(self._form, asked.tool_names, asked.most_calls)

    def prompts(self, asked: Asked) -> tuple[Conversation | RawPrompt, ...]:
        """The request's prompts; an answer that must be a call is begun as the model was taught to begin one.

        ApiError 400 where the template teaches no format that is known.
        """
        if not asked.forced:
            return asked.prompts
        if self._form is None:
            raise bad_request(
                "tool_choice: the model's chat template teaches no format of calls that this worker knows, so none "
                "can be made sure of",
                "tool_choice",
            )
        opening = OPENINGS[self._form]
        return tuple(
            replace(prompt, opening=opening) if isinstance(prompt, Conversation) else prompt
            for prompt in asked.prompts
        )

    def call_id(self, unique: str) -> str:
        """An id for a call: letters and digits, as many as the template takes, behind a prefix where it takes one."""
        digest = sha256(unique.encode()).hexdigest()
        return digest[:MISTRAL_ID] if self._form is ToolCallFormat.MISTRAL else f"call_{digest[:24]}"

    def grammar(self, asked: Asked, end_tokens: frozenset[int]) -> Grammar | None:
        """What keeps an answer to the request's schema; may take a while, so call it off the event loop.

        ApiError 400 where the schema cannot be followed.
        """
        schema, field = asked.schema, asked.schema_field
        call = self._form if asked.forced else None
        if call is not None:
            schema, field = _call_schema(asked, call), "tools"
        if schema is None:
            return None
        if self._grammars is None:
            self._grammars = Grammars(self._tokenizer.to_str(), end_tokens)
        try:
            return self._grammars.of_schema(schema, one_line=call is not None)
        except ValueError as error:
            raise bad_request(f"{field}: {error}", field) from None


def _call_schema(asked: Asked, form: ToolCallFormat) -> Mapping[str, Any]:
    """The schema of one call of one of the forced tools; what their parameters refer to moves to its top."""
    key, definitions, calls = arguments_key(form), dict[str, Any](), []
    conversation = next(prompt for prompt in asked.prompts if isinstance(prompt, Conversation))
    for tool in conversation.tools:
        function = tool["function"]
        if function["name"] not in asked.forced:
            continue
        parameters = dict(function.get("parameters") or {"type": "object"})
        for name in ("$defs", "definitions"):
            known, given = definitions.setdefault(name, {}), parameters.pop(name, None) or {}
            if not isinstance(given, dict):
                raise bad_request(f"tools: {name} of {function['name'][:200]!r} must be an object", "tools")
            for entry, meaning in given.items():
                if known.setdefault(entry, meaning) != meaning:
                    raise bad_request(f"tools: two of them mean different things by {name}/{entry}", "tools")
        calls.append(
            {
                "type": "object",
                "properties": {"name": {"const": function["name"]}, key: parameters},
                "required": ["name", key],
                "additionalProperties": False,
            }
        )
    return {"anyOf": calls, **{name: entries for name, entries in definitions.items() if entries}}
