"""Prompts that no engine has seen before: the frozen texts behind a number that is used once."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

from tokenizers import Tokenizer

from tierwright_worker.bench.prompts import Kind, read_prompts

Encode = Callable[[str], list[int]]


def encoder(folder: Path) -> Encode:
    """The tokenizer of a Hugging Face folder; no special tokens are added."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids)


class FreshPrompts:
    """Prompts as token ids. No two begin alike, so that no cache of prompts has anything of them."""

    def __init__(self, encode: Encode) -> None:
        prompts = read_prompts()
        self._encode = encode
        self._number = itertools.count(1)
        self._short = itertools.cycle([p.text for p in prompts if p.kind in (Kind.PROSE, Kind.LOAD)])
        self._long = [p.text for p in prompts if p.kind in (Kind.EDIT, Kind.COPY)]

    def short(self) -> list[int]:
        """A question."""
        return self._encode(f"Question {next(self._number)}. {next(self._short)}\n")

    def long(self, tokens: int) -> list[int]:
        """A prompt of exactly this length, made of files; they stand in another order each time.

        Raises:
            ValueError: more tokens than all files together have.
        """
        number = next(self._number)
        turn = number % len(self._long)
        texts: Iterator[str] = iter([*self._long[turn:], *self._long[:turn]])
        ids = self._encode(f"Document {number}.\n")
        while len(ids) < tokens:
            text = next(texts, None)
            if text is None:
                raise ValueError(f"the texts have fewer than {tokens} tokens")
            ids += self._encode(f"{text}\n")
        return ids[:tokens]
