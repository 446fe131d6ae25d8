"""A call is read whole or stays text: however the answer is cut into pieces, nothing the model says is lost or shown twice."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwright_worker.engine.policies.tool_calls import (
    CLOSING,
    OPENING,
    OPENINGS,
    PYTHON_TAG,
    ForcedCallReader,
    Read,
    ToolCall,
    ToolCallFormat,
    ToolCallReader,
    arguments_key,
    format_of,
)

NAMES = frozenset({"look_up", "add"})
HERMES, LLAMA, MISTRAL = ToolCallFormat.HERMES, ToolCallFormat.LLAMA, ToolCallFormat.MISTRAL
LOOK_UP = ToolCall("look_up", '{"word": "x"}')
ADD = ToolCall("add", '{"a": 1, "b": [2]}')


def hermes(call: ToolCall) -> str:
    """A call as Qwen writes it."""
    return f'<tool_call>\n{{"name": "{call.name}", "arguments": {call.arguments}}}\n</tool_call>'


def llama(call: ToolCall) -> str:
    """A call as Llama 3.1 writes it."""
    return f'{{"name": "{call.name}", "parameters": {call.arguments}}}'


def read(
    form: ToolCallFormat, text: str, size: int = 1, most: int | None = None
) -> tuple[str, list[ToolCall]]:
    """The text and the calls of an answer that comes in pieces of this size."""
    reader = ToolCallReader(form, NAMES, most)
    found = [part for at in range(0, len(text), size) for part in reader.push(text[at : at + size])]
    found += reader.flush()
    assert all(part.text or part.calls or most is not None for part in found)
    return "".join(part.text for part in found), [call for part in found for call in part.calls]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ '<tool_call>' }}", HERMES),
        ("<tool_call><function=name>", None),
        ("{{ '[TOOL_CALLS]' }}", MISTRAL),
        ("<|python_tag|>", LLAMA),
        ('in the format {"name": function name, "parameters": dictionary}', LLAMA),
        ("{{ messages }}", None),
    ],
)
def test_the_template_tells_the_format(template: str, expected: ToolCallFormat | None) -> None:
    assert format_of(template) is expected


CASES = [
    (HERMES, hermes(LOOK_UP), "", [LOOK_UP]),
    (HERMES, f"Let me see.\n{hermes(LOOK_UP)}\n{hermes(ADD)}\n", "Let me see.", [LOOK_UP, ADD]),
    (HERMES, f"{hermes(ADD)} and more", " and more", [ADD]),
    (HERMES, hermes(ADD).removesuffix(CLOSING), "", [ADD]),
    (HERMES, f"{OPENING}no JSON{CLOSING} so", f"{OPENING}no JSON{CLOSING} so", []),
    (HERMES, f"{OPENING}no{CLOSING}{hermes(ADD)}", f"{OPENING}no{CLOSING}", [ADD]),
    (HERMES, f"{OPENING}[1]", f"{OPENING}[1]", []),
    (HERMES, f'{OPENING}{{"name": 1}}{CLOSING}', f'{OPENING}{{"name": 1}}{CLOSING}', []),
    (HERMES, "a <tool", "a <tool", []),
    (HERMES, " \n", " \n", []),
    (HERMES, "a < b and c > d ", "a < b and c > d ", []),
    (
        HERMES,
        f'{OPENING}{{"name": "add", "arguments": {{"a": "</tool_call>"}}}}{CLOSING}',
        "",
        [ToolCall("add", '{"a": "</tool_call>"}')],
    ),
    (
        HERMES,
        f'{OPENING}{{"name": "add", "arguments": "{{\\"a\\": 1}}"}}{CLOSING}',
        "",
        [ToolCall("add", '{"a": 1}')],
    ),
    (HERMES, f'{OPENING}{{"name": "add"}}{CLOSING}', "", [ToolCall("add", "{}")]),
    (
        HERMES,
        f'{OPENING}{{"name": "add", "arguments": {{"a": NaN}}}}{CLOSING}',
        f'{OPENING}{{"name": "add", "arguments": {{"a": NaN}}}}{CLOSING}',
        [],
    ),
    (
        HERMES,
        f'{OPENING}{{"name": "\\ud800"}}{CLOSING}',
        f'{OPENING}{{"name": "\\ud800"}}{CLOSING}',
        [],
    ),
    (LLAMA, llama(LOOK_UP), "", [LOOK_UP]),
    (LLAMA, f" {PYTHON_TAG}{llama(LOOK_UP)}; {llama(ADD)}", "", [LOOK_UP, ADD]),
    (LLAMA, '{"name": "add", "arguments": {"a": 1}}', "", [ToolCall("add", '{"a": 1}')]),
    (LLAMA, '{"name": "unknown", "parameters": {}}', '{"name": "unknown", "parameters": {}}', []),
    (LLAMA, '{"a": 1} is JSON', '{"a": 1} is JSON', []),
    (LLAMA, "[1]", "[1]", []),
    (LLAMA, "A text with {", "A text with {", []),
    (LLAMA, "<|pyt", "<|pyt", []),
    (LLAMA, "<|py no", "<|py no", []),
    (LLAMA, "", "", []),
    (MISTRAL, f'[TOOL_CALLS] [{{"name": "add", "arguments": {ADD.arguments}}}]', "", [ADD]),
    (
        MISTRAL,
        'Well. [TOOL_CALLS][{"name": "add", "arguments": {}, "id": "abcdefghi"}]',
        "Well.",
        [ToolCall("add", "{}", "abcdefghi")],
    ),
    (MISTRAL, f"[TOOL_CALLS]look_up[ARGS]{LOOK_UP.arguments}", "", [LOOK_UP]),
    (
        MISTRAL,
        f"[TOOL_CALLS]add[CALL_ID]abcdefghi[ARGS]{ADD.arguments}[TOOL_CALLS]look_up{LOOK_UP.arguments}",
        "",
        [ToolCall("add", ADD.arguments, "abcdefghi"), LOOK_UP],
    ),
    (MISTRAL, "[TOOL_CALLS] [1]", "[TOOL_CALLS] [1]", []),
    (MISTRAL, "[TOOL_CALLS] [", "[TOOL_CALLS] [", []),
    (MISTRAL, "[TOOL_CALLS]add", "[TOOL_CALLS]add", []),
    (MISTRAL, '[TOOL_CALLS]{"a": 1}', '[TOOL_CALLS]{"a": 1}', []),
    (MISTRAL, "[TOOL_CALLS]add{", "[TOOL_CALLS]add{", []),
    (MISTRAL, "no call [TOOL", "no call [TOOL", []),
]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(("form", "answer", "text", "calls"), CASES)
def test_answers_are_taken_apart_alike_in_pieces_of_any_size(
    form: ToolCallFormat, answer: str, text: str, calls: list[ToolCall], size: int
) -> None:
    assert read(form, answer, size) == (text, calls)


@pytest.mark.parametrize("form", [HERMES, LLAMA])
def test_no_more_calls_are_read_than_may_be_made(form: ToolCallFormat) -> None:
    text = f"{hermes(LOOK_UP)}{hermes(ADD)}" if form is HERMES else f"{llama(LOOK_UP)};{llama(ADD)}"
    assert read(form, text, most=1) == ("", [LOOK_UP])
    assert read(form, text, most=2) == ("", [LOOK_UP, ADD])


def test_text_is_shown_as_soon_as_it_cannot_be_a_call() -> None:
    reader = ToolCallReader(HERMES, NAMES)
    assert [part.text for part in reader.push("Hello <to")] == ["Hello"]
    assert [part.text for part in reader.push("day")] == [" <today"]


@pytest.mark.parametrize("form", list(ToolCallFormat))
def test_a_forced_call_is_read_when_it_is_whole_and_text_when_it_was_cut(form: ToolCallFormat) -> None:
    text = json.dumps({"name": "look_up", arguments_key(form): {"word": "x"}})
    whole, short = ForcedCallReader(form), ForcedCallReader(form)
    assert whole.push(text[:9]) == whole.push(text[9:]) == short.push(text[:-1]) == []
    assert whole.flush() == [Read(calls=(LOOK_UP,))]
    assert short.flush() == [Read(text[:-1])]
    # What follows the opening is how an answer of the same format goes on.
    assert read(form, OPENINGS[form] + text + {HERMES: CLOSING, MISTRAL: "]", LLAMA: ""}[form]) == (
        "",
        [LOOK_UP],
    )


PIECES = st.lists(
    st.sampled_from(
        ["<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", PYTHON_TAG, "add", "{", "}", "[", "]"]
    )
    | st.sampled_from(['{"name": "add", "arguments": {}}', ' {"a": "</tool_call>"}', "; ", "\n", " text "]),
    max_size=8,
)


@given(st.sampled_from(list(ToolCallFormat)), PIECES, st.integers(1, 9))
def test_no_answer_breaks_the_reader_and_pieces_make_no_difference(
    form: ToolCallFormat, pieces: list[str], size: int
) -> None:
    answer = "".join(pieces)
    text, calls = read(form, answer, size)
    assert (text, calls) == read(form, answer, 10_000)
    assert all(isinstance(json.loads(call.arguments), dict) for call in calls)
    if not calls:
        assert text == answer
