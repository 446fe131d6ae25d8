"""Tokenizers rebuilt from GGUF metadata cut text as the models' own ones do; damaged or foreign data are refused."""

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models

from tierwright_worker.errors import CorruptModelError, ModelNotFoundError, UnsupportedModelError, WorkerError
from tierwright_worker.tokenizer.gguf_tokenizer import TokenizerFiles, tokenizer_from_gguf
from tierwright_worker.tokenizer.text import read_text_codec

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
WORDS = [
    SPACE,
    "h",
    "e",
    "l",
    "o",
    "w",
    "r",
    "d",
    f"{SPACE}h",
    "el",
    "lo",
    f"{SPACE}hel",
    f"{SPACE}hello",
    "wo",
]


def build(**values: Any) -> TokenizerFiles:
    """A tokenizer from metadata; double underscores stand for dots."""
    metadata = {f"tokenizer.ggml.{key}": value for key, value in values.items()}
    return tokenizer_from_gguf(metadata.get, where="it.gguf")


def sentencepiece(**more: Any) -> TokenizerFiles:
    """A small SentencePiece vocabulary with byte fallback."""
    tokens = [*PIECES, *WORDS]
    values: dict[str, Any] = {
        "model": "llama",
        "tokens": tokens,
        "token_type": [2, 3, 3, *([6] * 256), *([1] * len(WORDS))],
        "scores": [0.0] * 259 + [-float(at) for at in range(len(WORDS))],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
    }
    return build(**{**values, **more})


def byte_level(pre: str, merges: list[str]) -> TokenizerFiles:
    """A byte-level vocabulary of single bytes and the merges' results."""
    letters = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 324))]
    tokens = [*letters, *dict.fromkeys(merge.replace(" ", "") for merge in merges), "<|end|>"]
    types = [1] * (len(tokens) - 1) + [3]
    return build(model="gpt2", pre=pre, tokens=tokens, token_type=types, merges=merges)


@pytest.mark.parametrize("text", ["hello world", " hello", "héllo 🙂", "a\nb\t", ""])
def test_sentencepiece_text_comes_back(text: str) -> None:
    tokenizer = sentencepiece().tokenizer
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_sentencepiece_merges_what_scores_highest() -> None:
    encoded = sentencepiece().tokenizer.encode("hello wo")
    assert encoded.tokens == [f"{SPACE}hello", SPACE, "wo"]


def test_the_beginning_token_is_added_where_the_file_says_so() -> None:
    files = sentencepiece(add_bos_token=True)
    assert files.tokenizer.encode("hello").ids[0] == 1
    assert files.tokenizer.encode("hello", add_special_tokens=False).ids[0] != 1
    assert sentencepiece().tokenizer.encode("hello").ids[0] != 1
    assert files.config["bos_token"] == "<s>"


@pytest.mark.parametrize(
    ("pre", "digits"),
    [
        ("llama-bpe", ["123", "45"]),
        ("qwen2", ["1", "2", "3", "4", "5"]),
        ("smollm", ["1", "2", "3", "4", "5"]),
        ("gpt-2", ["12345"]),
    ],
)
def test_numbers_are_cut_as_the_model_was_trained(pre: str, digits: list[str]) -> None:
    merges = ["1 2", "12 3", "123 4", "1234 5", "4 5"]
    assert byte_level(pre, merges).tokenizer.encode("12345").tokens == digits


@pytest.mark.parametrize("pre", ["llama-bpe", "qwen2", "smollm", "default"])
@pytest.mark.parametrize("text", ["It's  héllo\n\n  世界 🙂", "<|end|>x", "\x00\x7f"])
def test_byte_level_text_comes_back(pre: str, text: str) -> None:
    tokenizer = byte_level(pre, ["h e"]).tokenizer
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_special_tokens_are_never_cut() -> None:
    assert byte_level("smollm", ["h e"]).tokenizer.encode("a<|end|>b").tokens == ["a", "<|end|>", "b"]


@pytest.mark.parametrize(
    ("values", "kind", "says"),
    [
        ({"model": "bert"}, UnsupportedModelError, "'bert' is not supported"),
        (
            {"model": "gpt2", "pre": "unheard", "merges": []},
            UnsupportedModelError,
            "'unheard' is not supported",
        ),
        ({"tokens": None}, CorruptModelError, "holds no vocabulary"),
        ({"tokens": ["a", "a"]}, CorruptModelError, "names a token twice"),
        ({"scores": [0.0]}, CorruptModelError, "no score per token"),
        ({"model": "gpt2", "merges": None}, CorruptModelError, "holds no merges"),
        ({"model": "gpt2", "merges": ["x yy"]}, CorruptModelError, "damaged"),
    ],
)
def test_data_that_make_no_tokenizer_are_refused(
    values: dict[str, Any], kind: type[WorkerError], says: str
) -> None:
    with pytest.raises(kind, match=says):
        sentencepiece(**values)


def test_a_folders_tokenizer_must_belong_to_its_model(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"holds no tokenizer\.json"):
        read_text_codec(tmp_path, embedding_rows=10)
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(CorruptModelError, match="no readable tokenizer"):
        read_text_codec(tmp_path, embedding_rows=10)
    Tokenizer(models.WordLevel({f"w{at}": at for at in range(11)}, unk_token="w0")).save(str(path))
    assert read_text_codec(tmp_path, embedding_rows=11).size == 11
    with pytest.raises(CorruptModelError, match="belongs to another model"):
        read_text_codec(tmp_path, embedding_rows=10)


def test_of_several_templates_the_default_one_is_taken_and_a_file_wins(tmp_path: Path) -> None:
    Tokenizer(models.WordLevel({"w": 0}, unk_token="w")).save(str(tmp_path / "tokenizer.json"))
    config = tmp_path / "tokenizer_config.json"
    config.write_text(
        '{"bos_token": {"content": "<b>"}, "chat_template": '
        '[{"name": "tools", "template": "no"}, {"name": "default", "template": "{{ bos_token }}yes"}]}'
    )
    template = read_text_codec(tmp_path, embedding_rows=1).chat_template
    assert template is not None
    assert template.render([]) == "<b>yes"
    (tmp_path / "chat_template.jinja").write_text("file")
    template = read_text_codec(tmp_path, embedding_rows=1).chat_template
    assert template is not None
    assert template.render([]) == "file"
    config.write_text("[]")
    with pytest.raises(CorruptModelError, match="not a JSON object"):
        read_text_codec(tmp_path, embedding_rows=1)
