"""What the status shows of scaling: two digits, a new number at once, other news once a minute, nothing while idle."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwright.api.conditions import Reason
from tierwright.control.decision_words import two_digits
from tierwright.control.shown import Figures, Shown, duration_text, latency_view, share_text, shown
from tierwright.observe.snapshot import LatencyView, ScalingView

VIEW = ScalingView(1, 1, Reason.STEADY, "1 replica kept (demand=0.2)", True)
FIGURES = Figures(0.34, 0.021, 0.991)


def after(
    before: Shown | None, fresh: ScalingView, now: float, *, idle: bool = False, **figures: float
) -> Shown:
    return shown(before, fresh, replace(FIGURES, **figures), promised=0.95, idle=idle, now=now)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.34, "340ms"), (0.0214, "21ms"), (0.00567, "5.7ms"), (0.9951, "1s"), (0.994, "990ms"), (1.24, "1.2s"),
        (12.4, "12s"), (126.0, "130s"), (0.0, "0ms"),
    ],
)  # fmt: skip
def test_durations_have_two_digits_and_the_unit_that_fits(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100%"), (0.99999, "99.99%"), (0.9951, "99.51%"), (0.9949, "99.49%"), (0.991, "99.10%"), (0.95, "95.0%"),
        (0.89, "89%"), (0.333, "33%"), (0.0, "0%"),
    ],
)  # fmt: skip
def test_a_share_never_looks_better_than_it_is(share: float, text: str) -> None:
    assert share_text(share) == text


@given(st.floats(0, 1))
def test_every_share_can_be_told(share: float) -> None:
    assert float(share_text(share).rstrip("%")) <= share * 100 + 1e-3


@given(st.floats(1e-6, 1e6))
def test_two_digits_are_near(value: float) -> None:
    text = two_digits(value)
    assert abs(float(text) - value) <= 0.051 * value
    assert "e" not in text


def test_the_first_view_is_shown_at_once_without_figures_while_idle() -> None:
    assert after(None, VIEW, 0.0).view == replace(VIEW, latency=latency_view(FIGURES, 0.95))
    assert after(None, VIEW, 0.0, idle=True).view == VIEW


def test_another_number_is_shown_at_once_and_other_words_after_a_minute() -> None:
    first = after(None, VIEW, 0.0)
    words = replace(VIEW, reason=Reason.FORECAST_HOLDS, message="other")
    assert after(first, words, 59.0).view == first.view
    assert after(first, words, 60.0).view.reason is Reason.FORECAST_HOLDS
    grown = after(first, replace(VIEW, wanted=2, recommended=2, message="2"), 10.0)
    assert (grown.view.wanted, grown.view.message) == (2, "2")
    assert grown.view.latency == first.view.latency


def test_the_same_reason_is_told_again_with_newer_figures_after_five_minutes_of_requests() -> None:
    first = after(None, VIEW, 0.0)
    newer = replace(VIEW, message="1 replica kept (demand=0.3)")
    assert after(first, newer, 299.0).view == first.view
    assert after(first, newer, 300.0).view.message == newer.message
    assert after(first, newer, 9000.0, idle=True).view == first.view


def test_what_is_wrong_now_is_told_although_no_request_is_seen() -> None:
    lost = replace(VIEW, wanted=None, follows_load=False, message="pod a: status 404")
    first = after(None, lost, 0.0)
    other = replace(lost, message="pod a: status 503")
    assert after(first, other, 299.0, idle=True).view == first.view
    assert after(first, other, 300.0, idle=True).view.message == other.message


def test_the_first_word_on_the_pods_is_told_at_once() -> None:
    waits = replace(VIEW, wanted=None, follows_load=False, reason=Reason.START_VALUE, message="soon")
    lost = replace(waits, reason=Reason.METRICS_UNAVAILABLE, message="pod a: status 404")
    assert after(after(None, waits, 0.0), lost, 1.0, idle=True).view.reason is Reason.METRICS_UNAVAILABLE


def test_figures_change_once_a_minute_by_more_than_a_hair_and_not_while_idle() -> None:
    first = after(None, VIEW, 0.0)
    assert after(first, VIEW, 30.0, first_token_p95=0.9).view == first.view
    assert after(first, VIEW, 60.0, first_token_p95=0.355).view == first.view
    assert after(first, VIEW, 60.0, first_token_p95=0.9, idle=True).view == first.view
    moved = after(first, VIEW, 60.0, first_token_p95=0.9)
    assert moved.view.latency.first_token_p95 == "900ms"
    assert after(moved, VIEW, 90.0, first_token_p95=0.1).view == moved.view


def test_the_promise_is_kept_or_not_by_the_exact_share() -> None:
    assert latency_view(Figures(None, None, 0.9499), 0.95).kept is False
    assert latency_view(Figures(None, None, 0.95), 0.95).kept is True
    assert latency_view(Figures(), 0.95) == LatencyView()


def test_a_warning_of_the_pages_is_shown_at_once() -> None:
    first = after(None, VIEW, 0.0)
    warned = after(first, replace(VIEW, warnings=("objectives.timeToFirstToken: x",)), 1.0)
    assert warned.view.warnings == ("objectives.timeToFirstToken: x",)
