"""The page on objectives explains every figure that ScalingActive tells, and its example is such a sentence."""

import re
from dataclasses import fields

from tests.support.documents import ROOT, blocks
from tierwright.capacity.decision import Decision, Inputs, Reason
from tierwright.capacity.plan import Plan
from tierwright.control.decision_words import words_of

PAGE = ROOT / "docs/how-to/scale-by-objectives.md"


def figures(message: str) -> list[str]:
    """The names of the figures at the end of a message."""
    return re.findall(r"(\w+)=", message)


def told() -> list[str]:
    """The figures that a decision with a plan tells."""
    plan = Plan(**dict.fromkeys((each.name for each in fields(Plan)), 1))
    decision = Decision(3, Reason.DEMAND_GREW, Inputs(2, 0, 0, 2, plan))
    return figures(words_of(decision).message)


def test_the_table_explains_each_figure_once() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    explained = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(explained) == sorted(told())


def test_the_example_has_the_figures_of_today() -> None:
    (example,) = [each.text for each in blocks(PAGE) if not each.language]
    assert figures(example) == told()
