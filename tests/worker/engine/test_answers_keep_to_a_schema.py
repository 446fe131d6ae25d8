"""An answer with a schema is JSON of that schema however random the model, alike with and without drafts; others go on beside it."""

import json
from typing import Any

import numpy as np
import pytest

from tests.worker.support import Bench, greedy, run, texts
from tests.worker.tiny_folder import tiny_tokenizer
from tierwright_worker.engine.grammar import Grammars, masked
from tierwright_worker.engine.interface import Constraint, ConstraintError, FinishReason, Mask, SamplingParams
from tierwright_worker.engine.loop import Engine
from tierwright_worker.engine.sequence import Request

TOKENIZER = tiny_tokenizer()
END: int = TOKENIZER.token_to_id("<|im_end|>") or 0
GRAMMARS = Grammars(TOKENIZER.to_str(), frozenset({END}))
SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["letter", "number"]},
        "size": {"type": "integer", "minimum": 0, "maximum": 99},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 3},
    },
    "required": ["kind", "size", "tags"],
    "additionalProperties": False,
}


def text_of(tokens: list[int]) -> str:
    """What tokens say."""
    return TOKENIZER.decode(tokens, skip_special_tokens=True)


def asked(params: SamplingParams, schema: dict[str, Any] = SCHEMA, name: str = "a") -> Request:
    """A request whose answer must keep to a schema."""
    prompt = tuple(int(token) for token in np.random.default_rng(1).integers(3, 99, 20))
    return Request(name, prompt, params, constraint=GRAMMARS.of_schema(schema))


def engine_of(tiny: Bench, drafts: int) -> Engine:
    """An engine that ends where the tokenizer's turns end."""
    return tiny.engine(draft_tokens=drafts, end_tokens=[END])


@pytest.mark.parametrize(
    "params",
    [greedy(220), *[SamplingParams(temperature=1.0, seed=seed, max_tokens=220) for seed in range(4)]],
)
def test_a_model_of_random_weights_writes_what_the_schema_asks(tiny: Bench, params: SamplingParams) -> None:
    found = []
    for drafts in (0, 4):
        outputs = run(engine_of(tiny, drafts), [asked(params)])
        assert outputs["a"][-1].finished is FinishReason.STOP
        found.append(texts(outputs)["a"])
    assert found[0] == found[1]
    answer = json.loads(text_of(found[0]))
    assert set(answer) == {"kind", "size", "tags"}
    assert answer["kind"] in ("letter", "number")
    assert 0 <= answer["size"] <= 99
    assert len(answer["tags"]) <= 3


def test_drafts_are_verified_within_the_schema(tiny: Bench) -> None:
    """Fixed parts repeat, so that look-up finds them."""
    schema = {"type": "array", "items": {"const": {"key": "value"}}, "minItems": 6, "maxItems": 6}
    no_white_space = {TOKENIZER.token_to_id(letter): -100.0 for letter in ("Ġ", "Ċ")}
    engine = engine_of(tiny, 4)
    (tokens,) = texts(run(engine, [asked(greedy(230, logit_bias=no_white_space), schema)])).values()
    assert json.loads(text_of(tokens)) == [{"key": "value"}] * 6
    assert engine.counters.accepted_tokens > 20


def test_a_neighbour_without_a_schema_is_not_touched(tiny: Bench) -> None:
    free = Request("free", tuple(range(5, 30)), greedy(40))
    alone = texts(run(engine_of(tiny, 4), [free]))["free"]
    assert texts(run(engine_of(tiny, 4), [asked(greedy(60)), free]))["free"] == alone


class Breaking:
    """A constraint that cannot be followed after some tokens."""

    def __init__(self, after: int, in_take: bool) -> None:
        self.left, self.in_take = after, in_take

    def allowed(self, draft: tuple[int, ...]) -> list[Mask]:  # noqa: ARG002  # anything may come
        """Anything, as long as it lasts."""
        if self.left <= 0 and not self.in_take:
            raise ConstraintError("too complex")
        return [np.ones(99, np.bool_)]

    def take(self, tokens: tuple[int, ...]) -> bool:
        """Never complete."""
        self.left -= len(tokens)
        if self.left <= 0 and self.in_take:
            raise ConstraintError("too complex")
        return False


@pytest.mark.parametrize("in_take", [False, True])
def test_a_schema_that_becomes_too_complex_ends_its_own_request_alone(tiny: Bench, in_take: bool) -> None:
    constraint: Constraint = Breaking(3, in_take)  # type: ignore[assignment]
    broken = Request("broken", (5, 6, 7), greedy(30), constraint=constraint)
    free = Request("free", tuple(range(5, 30)), greedy(30))
    outputs = run(engine_of(tiny, 0), [broken, free])
    assert (outputs["broken"][-1].finished, outputs["broken"][-1].tokens) == (FinishReason.ERROR, ())
    assert len(texts(outputs)["free"]) == 30


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "wizard"}, "Invalid type"),
        ({"$ref": "http://127.0.0.1/schema"}, "does not fetch"),
        ({"not": {}}, "not"),
        ({"type": "string", "pattern": "(a"}, "regex"),
        ({"type": "object", "properties": 5}, "properties must be an object"),
    ],
)
def test_a_schema_that_cannot_be_followed_is_refused_with_the_reason(
    schema: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        GRAMMARS.of_schema(schema)


def test_a_model_that_cannot_end_is_given_no_schema() -> None:
    with pytest.raises(ValueError, match="no end token"):
        Grammars(TOKENIZER.to_str(), frozenset()).of_schema({})


def test_copies_go_their_own_ways_and_looking_changes_nothing() -> None:
    first = GRAMMARS.of_schema({"enum": ["ab", "cd"]})
    second = first.copy()
    tokens = TOKENIZER.encode('"ab"').ids
    before = first.allowed(tokens)
    assert len(before) == len(tokens) + 1
    assert np.array_equal(before, first.allowed(tokens))
    assert not first.take(tokens[:2])
    assert first.take(tokens[2:])
    assert np.array_equal(second.allowed(tokens), before)
    with pytest.raises(ConstraintError, match="cannot be followed"):
        second.take(TOKENIZER.encode("no").ids)


def test_rows_keep_what_may_come_and_nothing_past_the_tokenizer() -> None:
    rows = np.ones((2, 4), np.float32)
    found = masked(rows, [np.array([True, False, True])])
    assert found[0].tolist() == [1, -np.inf, 1, -np.inf]
    assert found[1].tolist() == [1, 1, 1, 1]
    assert rows.tolist() == np.ones((2, 4)).tolist()
