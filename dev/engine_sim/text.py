"""Makes tokens out of text and answers out of prompts, always the same ones for the same prompt and seed."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

VOCABULARY = 49_152
# A line break is always a piece of its own, so an answer has the same pieces alone and behind its prompt.
PIECE = re.compile(r" ?\w{1,6}| ?[^\w\s]|\s")
FENCE = re.compile(r"```[^\n]*\n(.*?)```", re.DOTALL)
COPY_VERBS = (
    "add|apply|change|convert|copy|correct|echo|edit|fix|give back|proofread|refactor|reformat|rename|repeat|replace|"
    "reproduce|return|rewrite|update"
)
COPY_REQUEST = re.compile(
    rf"\s*(?:please |can you |could you )*(?:{COPY_VERBS})\b[^:\n]*[:\n]\s*(\S.*)", re.DOTALL | re.IGNORECASE
)
COMMON_WORDS = (
    "the a each one this another what which model answer question reader word sentence step part idea reason case "
    "example detail choice order time place light water river garden window letter number table paper story road "
    "is was has gives takes makes shows keeps needs finds follows explains means holds turns small large clear simple "
    "quick slow early late open common useful and or but then because while with without before after between"
)


@dataclass(frozen=True)
class Answer:
    """An answer's tokens as text, with a mark on those that are copied from the prompt."""

    pieces: tuple[str, ...]
    copied: tuple[bool, ...]


def pieces_of(text: str) -> tuple[str, ...]:
    """Split text into token-sized pieces; joined again they are the text."""
    return tuple(PIECE.findall(text))


def token_id(piece: str) -> int:
    """A stable id below the vocabulary's size."""
    return int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=4).digest(), "big") % VOCABULARY


def render_chat(messages: Sequence[tuple[str, str]]) -> str:
    """The prompt of a conversation of (role, text), ending where the answer begins."""
    turns = "".join(f"<|{role}|>\n{text}<|end|>\n" for role, text in messages)
    return f"{turns}<|assistant|>\n"


def block_hashes(pieces: Sequence[str], block_size: int, salt: str = "") -> tuple[bytes, ...]:
    """Hash chain over full blocks: equal hashes mean equal text from the very beginning, under the same salt."""
    chain = hashlib.blake2b(salt.encode(), digest_size=16).digest()
    hashes = []
    for start in range(0, len(pieces) - block_size + 1, block_size):
        block = "\0".join(pieces[start : start + block_size])
        chain = hashlib.blake2b(chain + block.encode(), digest_size=16).digest()
        hashes.append(chain)
    return tuple(hashes)


def answer_to(
    prompt: str, source: str, variant: str = "greedy", *, at_least: int = 0, at_most: int | None = None
) -> Answer:
    """The answer to a rendered prompt whose last user text is `source`.

    A request to copy or edit, or a fenced block, is answered with the text it names; anything else with prose made
    of common words and the prompt's own. `variant` names a draw (a seed); prompts with the same variant have the same answer.
    The text continues past its natural end up to `at_least` tokens, and is cut at `at_most`.
    """
    stream = numbers(f"{variant}\0{prompt}")
    document = _document(source)
    if document is not None:
        pieces = list(pieces_of(document))
        copied = [True] * len(pieces)
    else:
        pieces = list(pieces_of(_prose(stream, source, sentences=3 + next(stream) % 4)))
        copied = [False] * len(pieces)
    length = max(len(pieces), at_least)
    while len(pieces) < length:
        more = pieces_of(" " + _prose(stream, source, sentences=4))
        pieces.extend(more)
        copied.extend([False] * len(more))
    end = length if at_most is None else min(length, at_most)
    return Answer(tuple(pieces[:end]), tuple(copied[:end]))


def draftable(
    prompt: str, copied: Sequence[bool], *, chance_copied: float, chance_free: float
) -> tuple[bool, ...]:
    """Which tokens a drafter guesses right: draws that depend on the prompt and the position alone."""
    stream = numbers(f"draft\0{prompt}")
    scale = 2**32
    return tuple(next(stream) < scale * (chance_copied if is_copied else chance_free) for is_copied in copied)


def numbers(seed: str) -> Iterator[int]:
    """Endless 32-bit numbers from a text seed, the same on every machine and Python version."""
    key = hashlib.sha256(seed.encode()).digest()
    counter = 0
    while True:
        digest = hashlib.sha256(key + counter.to_bytes(8, "big")).digest()
        counter += 1
        for start in range(0, 32, 4):
            yield int.from_bytes(digest[start : start + 4], "big")


def _document(source: str) -> str | None:
    fenced = FENCE.findall(source)
    if fenced:
        longest: str = max(fenced, key=len)
        return f"```\n{longest}```"
    request = COPY_REQUEST.match(source)
    return request[1].strip() if request else None


def _prose(stream: Iterator[int], source: str, sentences: int) -> str:
    common = COMMON_WORDS.split()
    own = [word.lower() for word in re.findall(r"[^\W\d_]{4,}", source)][:200]
    made = []
    for _ in range(sentences):
        words = []
        for _ in range(6 + next(stream) % 9):
            pool = own if own and next(stream) % 4 == 0 else common
            words.append(pool[next(stream) % len(pool)])
        made.append(" ".join(words).capitalize() + ".")
    return " ".join(made)
