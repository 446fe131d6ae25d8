"""A chat template renders what Hugging Face renders, and cannot reach Python, loop for ever or fill the memory."""

import time

import pytest

from tierwright_worker.errors import CorruptModelError
from tierwright_worker.tokenizer.chat_template import ChatTemplate, ChatTemplateError

MESSAGES = [{"role": "user", "content": "Hi"}]


def render(source: str, **more: object) -> str:
    """A template of its own, on one message."""
    return ChatTemplate(source, {"bos_token": "<s>"}).render(MESSAGES, **more)  # type: ignore[arg-type]


def test_what_templates_rely_on_is_there() -> None:
    assert render("{{ bos_token }}{% for m in messages %}\n{{ m.role }}: {{ m['content'] }}{% endfor %}") == (
        "<s>user: Hi"
    )
    assert render("{% for m in messages %}{% if m %}{% break %}{% endif %}x{% endfor %}end") == "end"
    assert render("{{ tools | tojson }}", tools=[{"a": "<é>"}]) == '[{"a": "<é>"}]'
    assert render("{% if add_generation_prompt %}go{% endif %}") == "go"
    assert render("{{ thinking }}", variables={"thinking": "off"}) == "off"
    assert render("{{ 'a' ~ 1 ~ nothing ~ messages[0].role }}") == "a1user"
    assert render("{% set t %}{{ 1 }}b{% endset %}{{ t ~ t }}") == "1b1b"
    assert len(render("{{ strftime_now('%Y') }}")) == 4
    assert (
        render(
            "{%- set ns = namespace(n=0) -%}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}"
        )
        == "1"
    )


def test_a_template_may_refuse_the_messages_with_its_own_words() -> None:
    with pytest.raises(ChatTemplateError, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ raise_exception.__globals__['sys'] }}",
        "{{ 'a' * 100000000 }}",
        "{{ 9 ** 999999999 }}",
        "{{ [0] * 99999999 }}",
        "{{ range(99999999) | list }}",
        "{{ unknown.attribute.of.nothing }}",
        "{{ messages[0]['content'] + 1 }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set n = namespace(t='x') %}{% for i in range(40) %}{% set n.t = n.t ~ n.t %}{% endfor %}",
        "{% set n = namespace(t='x') %}{% for i in range(40) %}{% set t %}{{ n.t }}{{ n.t }}{% endset %}"
        "{% set n.t = t %}{% endfor %}",
        "{% macro f(t, n) %}{% if n %}{{ f(t, n - 1) }}{{ f(t, n - 1) }}{% else %}{{ t }}{% endif %}{% endmacro %}"
        "{{ f('x' * 1000, 16) }}",
    ],
)
def test_what_a_template_may_not_do_ends_in_one_error(source: str) -> None:
    with pytest.raises(ChatTemplateError):
        render(source)


def test_a_template_that_loops_is_ended_by_its_deadline() -> None:
    endless = "{% for a in range(90000) %}{% for b in range(90000) %}{% set c = a %}{% endfor %}{% endfor %}"
    began = time.monotonic()
    with pytest.raises(ChatTemplateError, match="did not end within"):
        render(endless, deadline_seconds=0.2)
    assert time.monotonic() - began < 10


def test_a_template_that_is_no_template_is_the_models_fault() -> None:
    with pytest.raises(CorruptModelError, match="not valid"):
        ChatTemplate("{% for %}", {})
