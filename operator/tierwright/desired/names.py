"""Decides the names of all children and the label values made from free text; nothing else makes names."""

import hashlib
import re
from typing import Final

_NAME_LIMIT: Final = 63  # Services, the names of pods' controllers and label values end here
_HASH_LENGTH: Final = 8
HEADLESS_SUFFIX: Final = "headless"
_DNS_1035_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


def child_name(tier_name: str, suffix: str = "") -> str:
    """The name of a child of the tier, a DNS-1035 label of at most 63 characters.

    A tier's name that is such a label already stays as it is; one that is too long, holds dots or starts with
    a digit is made to fit and gets a hash of the whole name, so that two tiers never share a child's name.
    So does a tier called ``x-headless``, whose Service would else be the headless Service of a tier ``x``.
    """
    ending = f"-{suffix}" if suffix else ""
    fits = len(tier_name) + len(ending) <= _NAME_LIMIT and _DNS_1035_LABEL.fullmatch(tier_name)
    if fits and not tier_name.endswith(f"-{HEADLESS_SUFFIX}"):
        return tier_name + ending
    readable = re.sub(r"[^-a-z0-9]", "-", tier_name.lower())
    if not readable[:1].isalpha():
        readable = f"t-{readable}"
    digest = short_hash(tier_name)
    stem = readable[: _NAME_LIMIT - len(ending) - _HASH_LENGTH - 1].rstrip("-")
    return f"{stem}-{digest}{ending}"


def label_value(text: str) -> str:
    """A legal label value for any text: the text itself where it is one, else made to fit, with a hash."""
    if len(text) <= _NAME_LIMIT and _LABEL_VALUE.fullmatch(text):
        return text
    readable = re.sub(r"[^-A-Za-z0-9_.]", "-", text)[: _NAME_LIMIT - _HASH_LENGTH - 1].strip("-_.")
    digest = short_hash(text)
    return f"{readable}-{digest}" if readable else digest


def short_hash(text: str) -> str:
    """The first 8 hexadecimal digits of the text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
