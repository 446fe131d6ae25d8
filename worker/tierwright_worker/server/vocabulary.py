"""What a model's tokens say: their bytes for answers, and the marks by which its template lets it call tools."""

from collections.abc import Sequence
from hashlib import sha256

from tierwright_worker.engine.grammar import Grammar, Grammars
from tierwright_worker.engine.policies.tool_calls import MARKS, ToolCallFormat, ToolCallReader, format_of
from tierwright_worker.server.asked import Asked
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

    def reader(self, asked: Asked) -> ToolCallReader | None:
        """What finds calls in an answer; None where none may be made, or the template's format is not known."""
        if self._form is None or not asked.tool_names:
            return None
        return ToolCallReader(self._form, asked.tool_names, asked.most_calls)

    def call_id(self, unique: str) -> str:
        """An id for a call: letters and digits, as many as the template takes, behind a prefix where it takes one."""
        digest = sha256(unique.encode()).hexdigest()
        return digest[:MISTRAL_ID] if self._form is ToolCallFormat.MISTRAL else f"call_{digest[:24]}"

    def grammar(self, asked: Asked, end_tokens: frozenset[int]) -> Grammar | None:
        """What keeps an answer to the request's schema; may take a while, so call it off the event loop.

        ApiError 400 where the schema cannot be followed.
        """
        if asked.schema is None:
            return None
        if self._grammars is None:
            self._grammars = Grammars(self._tokenizer.to_str(), end_tokens)
        try:
            return self._grammars.of_schema(asked.schema)
        except ValueError as error:
            raise bad_request(f"{asked.schema_field}: {error}", asked.schema_field) from None
