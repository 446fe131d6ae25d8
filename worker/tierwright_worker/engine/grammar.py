"""Keeps an answer to a JSON schema: which tokens may follow, step by step, computed by llguidance from the schema.

Masks depend on the tokens alone, so a constrained answer is the same with and without drafts, alone and in company.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher, LLTokenizer

from tierwright_worker.engine.interface import ConstraintError, Mask

# One space, or a new line with its indent: models that were never taught to end white space would write nothing else.
_WHITE_SPACE = r"( |\n[ \t]{0,16})?"
_ONE_LINE = r" ?"


class Grammar:
    """What may still follow in one answer. Mutable, one per sequence; one thread at a time may call it."""

    def __init__(self, matcher: LLMatcher, size: int, end_tokens: frozenset[int]) -> None:
        self._matcher, self._size, self._ends = matcher, size, end_tokens

    def copy(self) -> "Grammar":
        """Another one in the same state."""
        return Grammar(self._matcher.deep_copy(), self._size, self._ends)

    def allowed(self, draft: Sequence[int]) -> list[Mask]:
        """A mask for each row of a step: what may follow, then what may follow each drafted token.

        It ends with the first drafted token that may not come or that ends the answer.

        Raises:
            ConstraintError: the schema became too complex to follow.
        """
        masks = [self._mask()]
        taken = 0
        for token in draft:
            if token in self._ends or token >= self._size or not masks[-1][token]:
                break
            self._matcher.consume_token(token)
            taken += 1
            masks.append(self._mask())
        if taken and not self._matcher.rollback(taken):
            raise ConstraintError(f"the schema cannot be followed: {_said(self._matcher)}")
        return masks

    def take(self, tokens: Sequence[int]) -> bool:
        """Go on behind tokens that now belong to the answer; whether it is complete, so that none may follow."""
        for token in tokens:
            if not self._matcher.consume_token(token):
                raise ConstraintError(f"the schema cannot be followed: {_said(self._matcher)}")
        return bool(self._matcher.is_stopped())

    def _mask(self) -> Mask:
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        mask: Mask = np.unpackbits(bits, bitorder="little")[: self._size].astype(np.bool_)
        if self._matcher.is_error() or not mask.any():
            raise ConstraintError(
                f"the schema cannot be followed: {_said(self._matcher) or 'nothing may come'}"
            )
        return mask


class Grammars:
    """Makes grammars for one tokenizer; may be asked by several threads."""

    def __init__(self, tokenizer: str, end_tokens: frozenset[int]) -> None:
        """`tokenizer`: the JSON text of a Hugging Face tokenizer. Nothing is computed before the first schema comes."""
        self._tokenizer, self._ends = tokenizer, end_tokens
        self._lock = threading.Lock()
        self._made: LLTokenizer | None = None

    def of_schema(self, schema: Mapping[str, Any], *, one_line: bool = False) -> Grammar:
        """A grammar at its beginning. `one_line`: for what no person reads, where lines and indents would be waste.

        Raises:
            ValueError: the schema is none, or asks for what cannot be checked token by token; the message says what.
        """
        if not self._ends:
            raise ValueError("the model has no end token, so no answer could end where the schema does")
        white_space = _ONE_LINE if one_line else _WHITE_SPACE
        grammar = LLMatcher.grammar_from_json_schema(
            json.dumps(schema), overrides={"whitespace_pattern": white_space}
        )
        tokenizer = self._ready()
        refused, messages = LLMatcher.validate_grammar_with_warnings(grammar, tokenizer)
        if refused:
            raise ValueError("; ".join(messages))
        matcher = LLMatcher(tokenizer, grammar, log_level=0)
        # Some limits show only when the first tokens are looked for.
        matcher.compute_bitmask()
        if matcher.is_error():
            raise ValueError(f"the schema cannot be followed: {_said(matcher)}")
        return Grammar(matcher, tokenizer.vocab_size, self._ends)

    def _ready(self) -> LLTokenizer:
        with self._lock:
            if self._made is None:
                self._made = LLTokenizer(self._tokenizer, eos_token=sorted(self._ends))
            return self._made


def _said(matcher: LLMatcher) -> str:
    """What is wrong, without the state of the parser that the library writes behind it."""
    return (str(matcher.get_error() or "").splitlines() or [""])[0]


def masked(rows: npt.NDArray[np.float32], masks: Sequence[Mask]) -> npt.NDArray[np.float32]:
    """A copy of a step's logits [rows, vocabulary] without the tokens that may not come; rows past the masks stay whole."""
    result = rows.copy()
    for row, mask in zip(result, masks, strict=False):
        row[: len(mask)][~mask] = -np.inf
        row[len(mask) :] = -np.inf
    return result
