"""Text to token ids and back, and the chat template, for a Hugging Face folder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from tierwright_worker.errors import CorruptModelError, ModelNotFoundError
from tierwright_worker.tokenizer.chat_template import ChatTemplate

_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")
# Up to so many characters per allowed token, and so many in all, a text is read at once.
_CHARACTERS = 8
_AT_ONCE = 1 << 20
_PIECE = 1 << 16
_CUT = 64


class TooManyTokensError(ValueError):
    """A text has more tokens than are wanted; `count` is None where it was not read to its end."""

    def __init__(self, most: int, count: int | None) -> None:
        super().__init__(f"more than {most} tokens")
        self.most, self.count = most, count


@dataclass(frozen=True, slots=True)
class TextCodec:
    """A model's tokenizer. `chat_template` is None for models that were not trained to chat."""

    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    named_tokens: dict[str, str]

    @property
    def size(self) -> int:
        """Number of ids, special tokens included."""
        return int(self.tokenizer.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str, *, add_special_tokens: bool, most: int | None = None) -> list[int]:
        """Ids of a text. Special tokens are added for bare prompts; a chat template writes them itself.

        TooManyTokensError where there are more than `most`. A text that is far too long is not read to its end: the
        tokenizer takes some 200 bytes for a token, so that a request of megabytes would take gigabytes.
        """
        if most is not None and len(text) > min(_CHARACTERS * most, _AT_ONCE):
            self._check(text, most)
        ids = list(self.tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)
        if most is not None and len(ids) > most:
            raise TooManyTokensError(most, len(ids))
        return ids

    def _check(self, text: str, most: int) -> None:
        """Count by pieces, each with what a cut through a word may add, until there are too many."""
        count = 0
        for start in range(0, len(text), _PIECE):
            piece = self.tokenizer.encode(text[start : start + _PIECE], add_special_tokens=False)
            count += max(0, len(piece) - _CUT)
            if count > most:
                raise TooManyTokensError(most, None)

    def decode(self, tokens: list[int]) -> str:
        """The text of ids, special tokens left out."""
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))


def read_text_codec(folder: Path, *, embedding_rows: int) -> TextCodec:
    """The tokenizer of a folder.

    Raises:
        ModelNotFoundError: no tokenizer.json.
        CorruptModelError: a file is damaged, or the tokenizer knows ids that the model has no embedding for.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ModelNotFoundError(
            f"{folder} holds no tokenizer.json; sentencepiece files alone are not read, save the fast tokenizer"
        )
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for whatever it does not like
        raise CorruptModelError(f"{path} is no readable tokenizer: {error}; fetch it again") from error
    # Training leaves these behind in the file; a prompt is never cut or filled up in silence.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    config = _read_object(folder / "tokenizer_config.json")
    named = {name: text for name in _NAMED_TOKENS if (text := _token_text(config.get(name))) is not None}
    source = _template_source(folder, config)
    codec = TextCodec(tokenizer, ChatTemplate(source, named) if source else None, named)
    if codec.size > embedding_rows:
        raise CorruptModelError(
            f"{path} knows {codec.size} token ids, and the model has embeddings for {embedding_rows}: "
            "the tokenizer belongs to another model"
        )
    return codec


def _read_object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptModelError(f"{path} is not readable as JSON: {error}") from error
    if not isinstance(value, dict):
        raise CorruptModelError(f"{path} holds {type(value).__name__}, not a JSON object")
    return value


def _token_text(value: Any) -> str | None:
    """A token's text, which stands bare or in an object with its flags."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _template_source(folder: Path, config: dict[str, Any]) -> str | None:
    """A file of its own wins over the configuration; of several named templates, the default one."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise CorruptModelError(f"{path} is not readable: {error}") from error
    value = config.get("chat_template")
    if isinstance(value, list):
        named = {entry.get("name"): entry.get("template") for entry in value if isinstance(entry, dict)}
        value = named.get("default")
    return value if isinstance(value, str) else None
