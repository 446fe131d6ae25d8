"""The figures of a metrics page are read as the engine meant them; what cannot be believed is missing and told, never zero."""

from dataclasses import fields

import pytest

from tests.unit.engine_sim.running import MODEL, page_of, running_engine, sdk_of
from tests.unit.observe.engine_page import page
from tierwright.observe import metrics
from tierwright.observe.histogram import Totals
from tierwright.observe.metrics import Fault, FaultKind, MetricsPage, PageRefusedError, labels_of, parse


def faults_of(text: str) -> set[tuple[str, str]]:
    return {(fault.kind, fault.family) for fault in parse(text).faults}


def without(*names: str) -> str:
    """The page with every line of these families taken out."""
    return "".join(
        line for line in page().splitlines(keepends=True) if not any(name in line for name in names)
    )


def test_every_figure_of_a_page() -> None:
    read = parse(page())
    assert read.faults == ()
    assert (read.running, read.waiting, read.kv_usage) == (3, 1, 0.25)
    assert (read.finished, read.rejected) == (40, None)
    assert (read.prompt_tokens, read.cached_tokens, read.output_tokens) == (44_000, 4_000, 8_000)
    assert read.inter_token == Totals(160.0, 7_900)
    assert read.steps == Totals(48_000, 2_000)
    assert read.kv_tokens == 1_600
    assert read.process_start == 1_700_000_000.5
    assert read.first_token is not None
    assert list(read.first_token.counts) == [10, 30, 40, 44, 44]
    assert read.per_output_token is not None
    assert list(read.per_output_token.bounds[:3]) == [0.025, 0.05, 0.1]


async def test_the_page_of_an_engine_that_has_served() -> None:
    async with running_engine() as (_, server), sdk_of(server) as client:
        await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "hello"}], max_tokens=4
        )
        read = parse(await page_of(server))
    assert read.faults == ()
    missing = {field.name for field in fields(MetricsPage) if getattr(read, field.name) is None}
    assert missing == {"exactness"}, "only the JAX worker tells that"
    assert (read.finished, read.output_tokens) == (1, 4)
    assert read.first_token is not None
    assert read.first_token.count == 1


def test_the_engines_of_one_pod_are_added_and_their_cache_usage_averaged() -> None:
    two = page() + page(labels='engine="1",model_name="m"', process_start=0).replace("} 0.25", "} 0.75")
    read = parse(two)
    assert (read.running, read.finished, read.prompt_tokens) == (6, 80, 88_000)
    assert read.kv_usage == 0.5
    assert read.kv_tokens == 3_200
    assert read.first_token is not None
    assert list(read.first_token.counts) == [20, 60, 80, 88, 88]


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
        ("vllm:prompt_tokens_cached_total", "vllm:prefix_cache_hits_total"),
        ("vllm:prompt_tokens_total", "vllm:prompt_tokens"),
        ("vllm:generation_tokens_total", "vllm:generation_tokens"),
        ("vllm:request_success_total", "vllm:request_success"),
    ],
)
def test_older_engines_names_are_read(new: str, old: str) -> None:
    assert parse(page().replace(new, old)) == parse(page())


def test_the_newer_name_wins_where_a_page_has_both() -> None:
    both = page() + 'vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.9\n'
    assert parse(both).kv_usage == 0.25


def test_a_longer_name_is_another_family() -> None:
    other = page() + 'vllm:num_requests_waiting_by_reason{reason="capacity"} 99\n'
    assert parse(other).waiting == 1


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("vllm:num_requests_running", "running"),
        ("vllm:request_success_total", "finished"),
        ("vllm:inter_token_latency_seconds_sum", "inter_token"),
        ("vllm:iteration_tokens_total_count", "steps"),
        ("vllm:time_to_first_token_seconds", "first_token"),
    ],
)
def test_a_missing_family_is_told_and_is_not_zero(line: str, field: str) -> None:
    read = parse(without(line))
    assert getattr(read, field) is None
    assert Fault(FaultKind.MISSING, field) in read.faults


def test_what_many_engines_do_not_publish_is_no_fault() -> None:
    text = without("prompt_tokens_cached", "cache_config_info", "process_start")
    read = parse(text)
    assert (read.cached_tokens, read.kv_tokens, read.process_start, read.faults) == (None, None, None, ())


def test_an_empty_page_has_nothing() -> None:
    read = parse("")
    assert all(getattr(read, field.name) is None for field in fields(MetricsPage) if field.name != "faults")
    assert {fault.kind for fault in read.faults} == {FaultKind.MISSING}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "1e308"])
def test_a_value_that_is_no_count_is_told(value: str) -> None:
    text = page(running=value) + f'vllm:num_requests_running{{engine="1"}} {value}\n'
    assert parse(text).running is None
    assert faults_of(text) == {("NotANumber", "running")}


@pytest.mark.parametrize("value", ["", "x", "1_000", "1 2 3", '5 # {trace="a"} 0.3', "1 x"])
def test_a_malformed_value_is_told(value: str) -> None:
    text = page(running=value)
    assert parse(text).running is None
    assert ("Malformed", "vllm:num_requests_running") in faults_of(text)


@pytest.mark.parametrize("labels", ["a=b", 'a="b', 'a="1",a="2"', 'a="1" b="2"', '1a="2"'])
def test_malformed_labels_are_told(labels: str) -> None:
    text = without("num_requests_running") + f"vllm:num_requests_running{{{labels}}} 7\n"
    assert parse(text).running is None
    assert ("Malformed", "vllm:num_requests_running") in faults_of(text)


def test_a_timestamp_is_left_out() -> None:
    assert parse(page(running="3 1395066363000")).running == 3


def test_one_broken_line_spoils_the_sum_and_no_more() -> None:
    text = page() + 'vllm:num_requests_running{engine="1"} x\n'
    assert parse(text).running is None
    assert parse(text).waiting == 1


def test_spaces_and_tabs_do_not_matter() -> None:
    line = 'vllm:num_requests_running{engine="0",model_name="m"} 3'
    for spaced in (
        '  vllm:num_requests_running { engine = "0" , model_name="m", }\t3  ',
        "\tvllm:num_requests_running\t3",
        "vllm:num_requests_running{} 3",
    ):
        assert parse(page().replace(line, spaced)) == parse(page())


def test_quotes_and_braces_in_a_label_are_part_of_it() -> None:
    labels = r'model_name="a\"},le=\"7\\",x="\n\q{"'
    assert labels_of("{" + labels + "}") == {"model_name": 'a"},le="7\\', "x": "\n\\q{"}
    assert parse(page(labels=labels)) == parse(page())


@pytest.mark.parametrize(
    ("break_it", "kind"),
    [
        (lambda text: text.replace('le="0.5"', 'le="half"'), "Malformed"),
        (lambda text: text.replace(',le="0.5"', ""), "Malformed"),
        (lambda text: text.replace('le="0.5"', 'le="NaN"'), "Inconsistent"),
        (lambda text: text.replace('le="0.5"', 'le="0.1"'), "Inconsistent"),
        (lambda text: text.replace('le="0.5"} 30', 'le="0.5"} 9'), "Inconsistent"),
        (lambda text: text.replace('le="0.5"} 30', 'le="0.5"} NaN'), "NotANumber"),
        (lambda text: text.replace('le="+Inf"} 44', 'le="+Inf"} 45'), "Inconsistent"),
    ],
)
def test_a_histogram_that_does_not_add_up_is_left_out(break_it: object, kind: str) -> None:
    assert callable(break_it)
    text = break_it(page())
    assert parse(text).first_token is None
    assert kind in {fault.kind for fault in parse(text).faults}


def test_histograms_with_other_bounds_are_not_added() -> None:
    other = page(labels='engine="1",model_name="m"').replace('le="0.5"', 'le="0.6"')
    assert parse(page() + other).first_token is None
    assert ("Inconsistent", "first_token") in faults_of(page() + other)


def test_a_histogram_without_buckets_is_inconsistent() -> None:
    assert ("Inconsistent", "first_token") in faults_of(without("time_to_first_token_seconds_bucket"))


def test_a_missing_infinite_bucket_is_the_count() -> None:
    text = without('_seconds_bucket{engine="0",model_name="m",le="+Inf"}')
    assert parse(text) == parse(page())


@pytest.mark.parametrize("blocks", ["None", "0", "inf"])
def test_a_cache_of_unknown_size_is_unknown(blocks: str) -> None:
    assert parse(page().replace('num_gpu_blocks="100"', f'num_gpu_blocks="{blocks}"')).kv_tokens is None
    assert parse(page().replace('num_gpu_blocks="100"', 'a="1" b')).kv_tokens is None


def test_a_page_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_PAGE", 10)
    with pytest.raises(PageRefusedError, match="characters"):
        parse(page())


def test_a_label_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_LINES", 10)
    with pytest.raises(PageRefusedError, match="lines"):
        parse(page())
