"""Bounds of latency histograms come from the command line as vLLM spells them; what cannot be bounds is refused with the reason."""

import argparse

import pytest

from tierwright_worker.cli.histograms import histogram_buckets


def test_bounds_are_read_by_family() -> None:
    assert histogram_buckets('{"time_to_first_token": [0.1, 1], "inter_token_latency": [0.02]}') == {
        "time_to_first_token": (0.1, 1.0),
        "inter_token_latency": (0.02,),
    }
    assert histogram_buckets("{}") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0.1,0.2", "no JSON"),
        ("[0.1]", "bounds by family"),
        ('{"latency": [1]}', "no bounds can be set for latency"),
        ('{"request_latency": 1}', "list of positive numbers"),
        ('{"request_latency": []}', "list of positive numbers"),
        ('{"request_latency": ["1"]}', "list of positive numbers"),
        ('{"request_latency": [true]}', "list of positive numbers"),
        ('{"request_latency": [0, 1]}', "list of positive numbers"),
        ('{"request_latency": [2, 1]}', "larger than the one before"),
        ('{"request_latency": [1, 1]}', "larger than the one before"),
        ('{"request_latency": [1, NaN]}', "list of positive numbers"),
        ('{"request_latency": [1, 1e999]}', "list of positive numbers"),
    ],
)
def test_what_cannot_be_bounds_is_refused(text: str, words: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        histogram_buckets(text)
