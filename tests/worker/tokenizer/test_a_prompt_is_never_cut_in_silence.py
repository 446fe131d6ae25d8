"""What training leaves in a tokenizer's file, a largest length or padding, changes no prompt."""

from pathlib import Path

from tests.worker.tiny_folder import tiny_tokenizer
from tierwright_worker.tokenizer.text import read_text_codec


def test_a_tokenizer_saved_with_truncation_and_padding_reads_whole_texts(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.enable_truncation(max_length=8)
    tokenizer.enable_padding(length=32)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    codec = read_text_codec(tmp_path, embedding_rows=1000)
    assert len(codec.encode("x" * 20, add_special_tokens=False)) == 20
    assert len(codec.encode("x", add_special_tokens=False)) == 1
