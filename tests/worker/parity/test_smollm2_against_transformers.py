"""SmolLM2 in f32 gives transformers' greedy text on every recorded prompt, plain and speculating, alone and in company."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.worker.support import Bench, greedy, run, texts
from tierwright_worker.engine.sequence import Request
from tierwright_worker.loading.model import Model

pytestmark = pytest.mark.model
RECORD = Path(__file__).parent / "records" / "smollm2.json.gz"


@cache
def prompts() -> list[dict[str, Any]]:
    """What transformers computed; see dev/worker/reference.py."""
    with gzip.open(RECORD, "rt", encoding="utf-8") as file:
        records: list[dict[str, Any]] = json.load(file)["prompts"]
    return records


def requests(tokens: int) -> list[Request]:
    """All prompts."""
    return [Request(str(at), tuple(record["ids"]), greedy(tokens)) for at, record in enumerate(prompts())]


def test_at_least_twenty_prompts_are_recorded() -> None:
    assert len(prompts()) >= 20


def test_chat_template_and_tokenizer_give_the_same_ids(smollm2: Model) -> None:
    template = smollm2.text.chat_template
    assert template is not None
    for record in prompts():
        text = template.render([{"role": "user", "content": record["prompt"]}])
        assert text == record["text"]
        assert smollm2.text.encode(text, add_special_tokens=False) == record["ids"]
        assert smollm2.text.decode(record["greedy"]) == record["answer"]


def test_greedy_text_is_equal_plain_and_speculating(smollm2: Model, smollm2_bench: Bench) -> None:
    expected = {str(at): record["greedy"] for at, record in enumerate(prompts())}
    longest = max(len(tokens) for tokens in expected.values())
    ends = smollm2.config.eos_token_ids
    speculating = smollm2_bench.engine(draft_tokens=8, end_tokens=ends)
    assert texts(run(speculating, requests(longest))) == expected
    assert speculating.counters.accepted_tokens > 50
    assert speculating.counters.steps < sum(len(tokens) for tokens in expected.values()) / 2
    plain = smollm2_bench.engine(end_tokens=ends)
    assert texts(run(plain, requests(longest))) == expected
