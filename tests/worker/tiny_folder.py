"""Writes folders that a worker can serve whole: random weights, a tokenizer of printable ASCII, a chat template."""

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tests.worker.support import random_model

TEMPLATE = (
    "{% if tools %}<|im_start|>tools{% for tool in tools %} {{ tool.function.name }}{% endfor %}"
    ", called as <tool_call> <|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# In the alphabet of byte-level tokenizers a space and a line's end have letters of their own.
_LETTERS = [chr(code) for code in range(33, 127)] + ["Ġ", "Ċ"]


def tiny_tokenizer(letters: int = len(_LETTERS)) -> Tokenizer:
    """A tokenizer of so many letters, one a token, and of two special tokens."""
    vocabulary = {letter: at for at, letter in enumerate(_LETTERS[:letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in ("<|im_start|>", "<|im_end|>")])
    return tokenizer


def write_tiny_folder(folder: Path, name: str = "llama", *, letters: int = len(_LETTERS)) -> Path:
    """A folder with everything: a small random model, its tokenizer and template."""
    folder.mkdir(parents=True, exist_ok=True)
    random_model(name, folder)
    tiny_tokenizer(letters).save(str(folder / "tokenizer.json"))
    config = {"chat_template": TEMPLATE, "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder
