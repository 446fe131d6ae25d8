"""The bytes of tokens, joined, are the text that was tokenized, for both alphabets that tokenizers use."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tests.worker.server.tiny_model import CODEC
from tierwright_worker.loading.model import Model
from tierwright_worker.tokenizer.token_bytes import token_bytes

TABLE = token_bytes(CODEC.tokenizer)


def pieces() -> Tokenizer:
    """A tokenizer like Llama 2's: marks for spaces, bytes for what has no piece."""
    vocabulary = {"<unk>": 0, "▁Hello": 1, "▁": 2, "wörld": 3, "<0xZZ>": 4}
    vocabulary |= {f"<0x{byte:02X}>": 5 + byte for byte in range(256)}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True, unk_token="<unk>"))
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made.add_special_tokens([AddedToken("<s>", special=True)])
    made.add_tokens([AddedToken("<tool>", special=False)])
    return made


@settings(deadline=None, derandomize=True, database=None)
@given(st.text(max_size=40))
def test_byte_level_tokens_join_to_the_text(text: str) -> None:
    data = text.encode("utf-8", "replace")
    tokens = CODEC.encode(data.decode(), add_special_tokens=False)
    special = ("<|im_start|>", "<|im_end|>")
    if not any(name in text for name in special):
        assert b"".join(TABLE[token] for token in tokens) == data


def test_special_tokens_have_no_text() -> None:
    for name in ("<|im_start|>", "<|im_end|>"):
        assert TABLE[CODEC.tokenizer.token_to_id(name) or 0] == b""


def test_pieces_have_spaces_and_single_bytes() -> None:
    tokenizer = pieces()
    table = token_bytes(tokenizer)
    assert table[1] == b" Hello"
    assert table[2] == b" "
    assert table[3] == "wörld".encode()
    assert table[4] == b"<0xZZ>"
    assert table[5 + 0xF0] == b"\xf0"
    assert table[tokenizer.token_to_id("<s>") or 0] == b""
    assert table[tokenizer.token_to_id("<tool>") or 0] == b"<tool>"


def test_a_vocabulary_outside_the_byte_alphabet_stands_for_itself() -> None:
    odd = Tokenizer(models.WordLevel(vocab={"日本": 0, "plain": 1}, unk_token="plain"))
    odd.decoder = decoders.ByteLevel()
    assert token_bytes(odd) == ("日本".encode(), b"plain")


def test_a_tokenizer_without_decoder_or_with_gaps_is_read() -> None:
    gaps = Tokenizer(models.WordLevel(vocab={"a": 0, "b": 3}, unk_token="a"))
    gaps.pre_tokenizer = pre_tokenizers.Whitespace()
    assert token_bytes(gaps) == (b"a", b"", b"", b"b")


def test_smollm2_s_tokens_join_to_the_text(smollm2: Model) -> None:
    table = token_bytes(smollm2.text.tokenizer)
    for text in ("def add(a, b):\n    return a + b\n", "Grüße aus 東京 🚀🚀, 12345!", "  two spaces\t\ttabs"):
        tokens = smollm2.text.encode(text, add_special_tokens=False)
        assert b"".join(table[token] for token in tokens).decode() == text
