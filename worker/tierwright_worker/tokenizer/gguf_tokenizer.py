"""Builds a tokenizer from a GGUF file's metadata, as `tokenizer.json` and `tokenizer_config.json` would describe it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from tierwright_worker.errors import CorruptModelError, UnsupportedModelError, WorkerError

# How words are cut before merging; facts of the models' own tokenizers, named in GGUF by `tokenizer.ggml.pre`.
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SPLITS = {
    "llama-bpe": rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_REST}",
    "qwen2": rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_REST}",
}
_CONTROL, _USER_DEFINED = 3, 4  # llama.cpp's token types that are never cut
Metadata = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """What a Hugging Face folder holds beside the weights."""

    tokenizer: Tokenizer
    config: dict[str, Any]


def tokenizer_from_gguf(metadata: Metadata, *, where: str) -> TokenizerFiles:
    """The tokenizer that the metadata describes.

    Raises:
        UnsupportedModelError: a kind of tokenizer or of word splitting that is not built.
        CorruptModelError: the vocabulary is missing or contradicts itself.
    """
    kind = metadata("tokenizer.ggml.model")
    tokens = metadata("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not tokens:
        raise CorruptModelError(f"{where} holds no vocabulary (tokenizer.ggml.tokens)")
    if len(set(tokens)) != len(tokens):
        raise CorruptModelError(f"{where}: the vocabulary names a token twice")
    types = metadata("tokenizer.ggml.token_type") or []
    try:
        if kind == "gpt2":
            tokenizer = _byte_level(metadata, tokens, where)
        elif kind == "llama":
            tokenizer = _sentencepiece(metadata, tokens, where)
        else:
            raise UnsupportedModelError(f"{where}: tokenizer {kind!r} is not supported; gpt2 and llama are")
        special = [
            AddedToken(token, special=kind_of == _CONTROL, normalized=False)
            for token, kind_of in zip(tokens, types, strict=False)
            if kind_of in (_CONTROL, _USER_DEFINED)
        ]
        tokenizer.add_special_tokens([token for token in special if token.special])
        tokenizer.add_tokens([token for token in special if not token.special])
    except WorkerError:
        raise
    except Exception as error:  # the library raises bare Exception for whatever it does not like
        raise CorruptModelError(f"{where}: the tokenizer's data are damaged: {error}") from error
    if tokenizer.get_vocab_size() != len(tokens):
        raise CorruptModelError(
            f"{where}: the tokenizer has {tokenizer.get_vocab_size()} tokens, not {len(tokens)}"
        )
    names = {f"{name}_token": _named(metadata, tokens, name) for name in ("bos", "eos", "unknown", "padding")}
    config = {
        "bos_token": names["bos_token"],
        "eos_token": names["eos_token"],
        "unk_token": names["unknown_token"],
        "pad_token": names["padding_token"],
        "chat_template": metadata("tokenizer.chat_template"),
    }
    if metadata("tokenizer.ggml.add_bos_token") and (bos := config["bos_token"]):
        tokenizer.post_processor = TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, tokens.index(bos))]
        )
    return TokenizerFiles(tokenizer, {key: value for key, value in config.items() if value is not None})


def _named(metadata: Metadata, tokens: list[str], name: str) -> str | None:
    index = metadata(f"tokenizer.ggml.{name}_token_id")
    return tokens[index] if isinstance(index, int) and 0 <= index < len(tokens) else None


def _byte_level(metadata: Metadata, tokens: list[str], where: str) -> Tokenizer:
    merges = metadata("tokenizer.ggml.merges")
    if not isinstance(merges, list):
        raise CorruptModelError(f"{where} holds no merges (tokenizer.ggml.merges)")
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    splitting = metadata("tokenizer.ggml.pre") or "default"
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=pairs, fuse_unk=False, ignore_merges=splitting == "llama-bpe")
    )
    if splitting in _SPLITS:
        cut = pre_tokenizers.Split(Regex(_SPLITS[splitting]), behavior="isolated")
        bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, bytes_only])
    elif splitting in ("smollm", "default", "gpt-2"):
        steps: list[pre_tokenizers.PreTokenizer] = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
        if splitting == "smollm":
            steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    else:
        known = ", ".join(sorted([*_SPLITS, "smollm", "default", "gpt-2"]))
        raise UnsupportedModelError(
            f"{where}: tokenizer.ggml.pre {splitting!r} is not supported; known: {known}"
        )
    if splitting == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentencepiece(metadata: Metadata, tokens: list[str], where: str) -> Tokenizer:
    """SentencePiece's BPE: of all neighbours, those are merged first whose union scores highest."""
    scores = metadata("tokenizer.ggml.scores")
    if not isinstance(scores, list) or len(scores) != len(tokens):
        raise CorruptModelError(f"{where} holds no score per token (tokenizer.ggml.scores)")
    vocabulary = {token: index for index, token in enumerate(tokens)}
    ranked = [
        (-scores[index], index, cut, token)
        for token, index in vocabulary.items()
        for cut in range(1, len(token))
        if token[:cut] in vocabulary and token[cut:] in vocabulary
    ]
    merges = [(token[:cut], token[cut:]) for _, _, cut, token in sorted(ranked)]
    unknown = _named(metadata, tokens, "unknown")
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    prefixed = metadata("tokenizer.ggml.add_space_prefix") is not False
    spaces = normalizers.Replace(" ", "\N{LOWER ONE EIGHTH BLOCK}")
    tokenizer.normalizer = (
        normalizers.Sequence([normalizers.Prepend("\N{LOWER ONE EIGHTH BLOCK}"), spaces])
        if prefixed
        else spaces
    )
    steps: list[decoders.Decoder] = [
        decoders.Replace("\N{LOWER ONE EIGHTH BLOCK}", " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
    ]
    if prefixed:
        steps.append(decoders.Strip(content=" ", left=1, right=0))
    tokenizer.decoder = decoders.Sequence(steps)
    return tokenizer
