"""Checks `--speculative-config` as vLLM's configuration does and says how many tokens a step drafts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LOOKUP_METHODS = frozenset({"ngram", "ngram_gpu", "suffix"})
METHODS_WITHOUT_OWN_WEIGHTS = LOOKUP_METHODS | {"mtp", "custom_class", "extract_hidden_states"}
KEYS = frozenset(
    {
        "num_speculative_tokens",
        "model",
        "method",
        "draft_tensor_parallel_size",
        "quantization",
        "kv_cache_dtype",
        "max_model_len",
        "revision",
        "code_revision",
        "attention_backend",
        "disable_padded_drafter_batch",
        "parallel_drafting",
        "use_heterogeneous_vocab",
        "prompt_lookup_max",
        "prompt_lookup_min",
        "suffix_decoding_max_tree_depth",
        "suffix_decoding_max_cached_requests",
        "suffix_decoding_max_spec_factor",
        "suffix_decoding_min_token_prob",
        "rejection_sample_method",
        "draft_sample_method",
        "num_speculative_tokens_per_batch_size",
    }
)


class SpeculationError(ValueError):
    """A speculative configuration that vLLM refuses to start with."""


@dataclass(frozen=True)
class Speculation:
    """A drafting method, the tokens it drafts a step, and fewer of them for ranges of batch sizes."""

    method: str
    tokens: int
    by_batch_size: tuple[tuple[int, int, int], ...] = ()

    def draft_tokens(self, batch_size: int) -> int:
        """Tokens to draft for each sequence when `batch_size` sequences are decoding."""
        for first, last, tokens in self.by_batch_size:
            if first <= batch_size <= last:
                return tokens
        return self.tokens

    @property
    def has_draft_model(self) -> bool:
        """Whether drafting itself costs time: every method but look-up in text that is already there."""
        return self.method not in LOOKUP_METHODS


def parse_speculation(config: Mapping[str, Any], known_methods: frozenset[str]) -> Speculation | None:
    """The speculation that a configuration asks for, None for an empty one; SpeculationError names the key."""
    if not config:
        return None
    unknown = sorted(set(config) - KEYS)
    if unknown:
        raise SpeculationError(f"speculative_config.{unknown[0]}: unexpected keyword argument")
    method = config.get("method") or ("draft_model" if config.get("model") else None)
    if method is None:
        raise SpeculationError("speculative_config.method: required when no model is given")
    if method not in known_methods:
        raise SpeculationError(
            f"speculative_config.method: {method!r} is none of {', '.join(sorted(known_methods))}"
        )
    if not config.get("model") and method not in METHODS_WITHOUT_OWN_WEIGHTS and not method.endswith("_mtp"):
        raise SpeculationError(f"speculative_config.model: method {method} needs the draft's model")
    for key in ("prompt_lookup_min", "prompt_lookup_max"):
        if key in config:
            _whole_number(key, config[key], at_least=1)
    if config.get("prompt_lookup_min", 1) > config.get(
        "prompt_lookup_max", config.get("prompt_lookup_min", 1)
    ):
        raise SpeculationError("speculative_config.prompt_lookup_min: larger than prompt_lookup_max")
    if "num_speculative_tokens" not in config:
        raise SpeculationError(
            "speculative_config.num_speculative_tokens: required with this method and model"
        )
    tokens = _whole_number("num_speculative_tokens", config["num_speculative_tokens"], at_least=1)
    return Speculation(method, tokens, _by_batch_size(config.get("num_speculative_tokens_per_batch_size")))


def _by_batch_size(ranges: object) -> tuple[tuple[int, int, int], ...]:
    name = "num_speculative_tokens_per_batch_size"
    if ranges is None:
        return ()
    if not isinstance(ranges, list) or any(
        not isinstance(entry, list) or len(entry) != 3 for entry in ranges
    ):
        raise SpeculationError(f"speculative_config.{name}: must be a list of [first, last, tokens]")
    parsed = []
    for first, last, tokens in ranges:
        low = _whole_number(name, first, at_least=1)
        parsed.append((low, _whole_number(name, last, at_least=low), _whole_number(name, tokens, at_least=0)))
    return tuple(parsed)


def _whole_number(key: str, value: object, at_least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise SpeculationError(
            f"speculative_config.{key}: {value!r} must be a whole number of at least {at_least}"
        )
    return value
