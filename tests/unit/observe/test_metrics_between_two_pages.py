"""What a pod did between two pages: counters that start again are not negative, and arrivals are never completions."""

import pytest

from tests.unit.observe.engine_page import page
from tierwright.observe.histogram import Totals
from tierwright.observe.metrics import parse
from tierwright.observe.page_delta import between


def test_growth_between_two_pages() -> None:
    before = parse(page())
    after = parse(
        page(
            running=5,
            waiting=4,
            finished=50,
            first_tokens=(12, 34, 46, 52, 54),
            per_output=(25, 44, 50, 50),
            prompt_tokens=54_000,
            output_tokens=10_000,
            inter_token=(200.0, 9_900),
            steps=(60_000, 2_400),
        )
    )
    delta = between(before, after)
    assert not delta.restarted
    assert delta.finished == 10
    assert delta.arrivals == 15, "ten ended, two more run, three more wait"
    assert (delta.prompt_tokens, delta.cached_tokens, delta.output_tokens) == (10_000, 0, 2_000)
    assert delta.inter_token == Totals(40.0, 2_000)
    assert delta.steps == Totals(12_000, 400)
    assert delta.first_token is not None
    assert list(delta.first_token.counts) == [2, 4, 6, 8, 10]
    assert delta.per_output_token is not None
    assert delta.per_output_token.count == 10


def test_arrivals_at_a_saturated_engine_are_seen_though_nothing_ends() -> None:
    assert between(parse(page(waiting=1)), parse(page(waiting=200))).arrivals == 199


def test_refused_requests_are_arrivals() -> None:
    refused = 'vllm:admission_rejections_total{reason="max_num_queued_reqs"} '
    before, after = parse(page() + refused + "1\n"), parse(page() + refused + "31\n")
    assert between(before, after).arrivals == 30


def test_arrivals_are_not_negative_when_a_page_is_torn() -> None:
    assert between(parse(page(running=3)), parse(page(running=1))).arrivals == 0


@pytest.mark.parametrize(
    "after",
    [
        page(process_start=1_700_000_900.0, finished=41),
        page(finished=2, running=1, waiting=0),
        page(first_tokens=(1, 2, 3, 4, 4)),
    ],
    ids=["another process", "a counter fell", "a histogram fell"],
)
def test_a_restart_counts_from_zero(after: str) -> None:
    read = parse(after)
    delta = between(parse(page()), read)
    assert delta.restarted
    assert delta.finished == read.finished
    assert delta.output_tokens == read.output_tokens
    assert delta.steps == read.steps
    assert delta.first_token == read.first_token


def test_a_family_that_is_missing_from_either_page_is_unknown() -> None:
    whole, half = (
        page(),
        "\n".join(line for line in page().splitlines() if "seconds" not in line and "request" not in line),
    )
    for before, after in ((whole, half), (half, whole)):
        delta = between(parse(before), parse(after))
        assert delta.arrivals is None
        assert delta.finished is None
        assert delta.inter_token is None
        assert delta.first_token is None
        assert delta.prompt_tokens == 0


def test_other_bounds_cannot_be_compared() -> None:
    assert between(parse(page()), parse(page().replace('le="0.5"', 'le="0.6"'))).first_token is None


def test_buckets_that_were_torn_apart_are_left_out() -> None:
    torn = parse(page(first_tokens=(30, 30, 40, 44, 45)))
    assert between(parse(page()), torn).first_token is None
