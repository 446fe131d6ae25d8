"""The set of prompts is the one that its hash names, and has what a comparison needs."""

from collections import Counter
from pathlib import Path

import pytest

from tierwright_worker.bench.prompts import PROMPTS_FILE, Kind, read_prompts


def test_there_are_enough_of_each_kind() -> None:
    kinds = Counter(prompt.kind for prompt in read_prompts())
    assert kinds[Kind.EDIT] >= 20
    assert kinds[Kind.COPY] >= 10
    assert kinds[Kind.PROSE] >= 10
    # A loaded engine of eight slots must find others to serve while the last of the measured ones end.
    assert kinds[Kind.LOAD] >= 8


def test_edits_are_of_all_sorts() -> None:
    sorts = Counter(prompt.id.split("-")[1] for prompt in read_prompts() if prompt.kind is Kind.EDIT)
    assert sorts.keys() == {"rename", "docstring", "bugfix", "format"}
    assert min(sorts.values()) >= 5


def test_answers_are_short_and_files_stand_between_fences() -> None:
    for prompt in read_prompts():
        assert 0 < prompt.max_tokens <= 200
        is_file = prompt.kind in (Kind.EDIT, Kind.COPY)
        assert bool(prompt.opening) == bool(prompt.closing) == is_file
        assert not is_file or prompt.text.startswith(prompt.opening)


def test_a_changed_set_is_refused(tmp_path: Path) -> None:
    changed = tmp_path / "prompts.jsonl"
    changed.write_bytes(PROMPTS_FILE.read_bytes() + b"\n")
    with pytest.raises(ValueError, match="was changed"):
        read_prompts(changed)
