"""``tierwright plan`` refuses what cannot be planned, all at once, and says what to do."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.plan_command import OBJECTIVES, errors, plan, planned, tier
from tierwright.cli import main
from tierwright.planning.trace_rows import MOST_DISORDER


def test_everything_that_is_wrong_is_said_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "bad.csv"
    trace.write_text(
        "arrival_s,input_tokens,output_tokens\n0,10,10\n-1,10,10\n2,nan,10\n3,10\n", encoding="utf-8"
    )
    bare = tmp_path / "bare.yaml"
    bare.write_text(tier().replace(f"    objectives: {{{OBJECTIVES}}}\n", ""), encoding="utf-8")
    said = errors(capsys, "--trace", trace, "-f", bare, "-f", tmp_path / "none.yaml", "--step-time", "fast")
    assert all(line.startswith("error: ") for line in said)
    for words in (
        "none.yaml: cannot be read",
        "bare.yaml, document 1: spec.scaling.objectives",
        "--step-time fast: is no step time",
        "bad.csv, line 3: arrival_s is '-1'",
        "bad.csv, line 4: input_tokens is 'nan'",
        "bad.csv, line 5: output_tokens is missing",
    ):
        assert sum(words in line for line in said) == 1, words


def test_a_file_full_of_bad_lines_is_not_told_line_by_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, file: Path
) -> None:
    trace = tmp_path / "bad.csv"
    trace.write_text("arrival_s,input_tokens,output_tokens\n" + "x,1,1\n" * 5000, encoding="utf-8")
    said = errors(capsys, "--trace", trace, "-f", file)
    assert len(said) == 21
    assert said[-1].endswith("4,980 more lines are wrong")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "line 1: the file is empty"),
        (b"arrival_s,input_tokens,output_tokens\n", "holds no request"),
        (b"when,in,out\n1,2,3\n", "--arrival-column"),
        (b"\xff\xfe\x00\x01\n", "line 1: is no UTF-8 text"),
        (
            b"arrival_s,input_tokens,output_tokens\n0,1,1\n1,\xff\xfe,1\n",
            "line 3: input_tokens is '\\udcff\\udcfe'; a number of tokens is expected",
        ),
        (
            b"arrival_s;input_tokens;output_tokens\n0;1;1\n",
            "line 1: the header's columns are separated by semicolons",
        ),
        (
            b"arrival_s,input_tokens,output_tokens\n2026-01-01,1,1\n7,1,1\n",
            "line 3: arrival_s is '7', a number, and the lines before hold dates",
        ),
        (
            gzip.compress(b"arrival_s,input_tokens,output_tokens\n" + b"1,2,3\n" * 999)[:-20],
            "gzip file is damaged",
        ),
        (b"\x1f\x8bnonsense", "gzip file is damaged"),
        (
            b"arrival,input_tokens,output_tokens\n0,1,1\n1700000000,1,1\n",
            "say the unit of its times by --time-unit",
        ),
    ],
    ids=[
        "empty",
        "no-request",
        "columns",
        "binary",
        "bytes",
        "semicolons",
        "dates",
        "cut",
        "no-gzip",
        "unit",
    ],
)
def test_a_trace_that_is_none_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, file: Path, content: bytes, words: str
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_bytes(content)
    assert words in "\n".join(errors(capsys, "--trace", trace, "-f", file))


def test_a_trace_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    assert errors(capsys, "--trace", file.parent / "none.csv", "-f", file) == [
        f"error: {file.parent / 'none.csv'}: cannot be read: No such file or directory"
    ]


def test_a_folder_is_no_trace_and_no_tier(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    folder = file.parent / "traces"
    folder.mkdir()
    (words,) = errors(capsys, "--trace", folder, "-f", file)
    assert words == f"error: {folder}: cannot be read: Is a directory"
    (words,) = errors(capsys, "--trace", trace, "-f", folder)
    assert words == f"error: {folder}: cannot be read: Is a directory"


def test_a_trace_whose_order_is_lost_is_refused_with_the_line_and_not_sorted_in_memory(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, file: Path
) -> None:
    trace = tmp_path / "unsorted.csv"
    lines = [f"{place},1,1\n" for place in range(10, 3 * MOST_DISORDER)]
    trace.write_text(
        "arrival_s,input_tokens,output_tokens\n" + "".join([*lines, "3,1,1\n"]), encoding="utf-8"
    )
    (words,) = errors(capsys, "--trace", trace, "-f", file)
    assert f"unsorted.csv, line {3 * MOST_DISORDER - 8}: arrives " in words
    assert words.endswith("sort the file by its arrival column")


def test_bytes_that_are_no_text_do_not_matter_in_a_column_that_is_not_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, file: Path
) -> None:
    trace = tmp_path / "latin.csv"
    trace.write_bytes(b"arrival_s,input_tokens,output_tokens,note\n0,100,10,\xfcber\n60,100,10,x\n")
    found = planned(capsys, "--trace", trace, "-f", file, "--static", "1", "--as-written")
    assert found["trace"]["requests"] == 2


def test_times_that_may_not_be_seconds_are_doubted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, file: Path
) -> None:
    trace = tmp_path / "mooncake.jsonl"
    lines = (
        f'{{"timestamp": {3000 * place}, "input_length": 100, "output_length": 10}}\n' for place in range(20)
    )
    trace.write_text("".join(lines), encoding="utf-8")
    words = plan("--trace", trace, "-f", file, "--static", "1", "--as-written")
    assert main([*words, "--time-unit", "ms"]) == 0
    said = capsys.readouterr()
    assert "20 requests in 0.95 minutes" in said.out
    assert said.err == ""
    assert main(words) == 0
    assert "20 requests in 0.7 days are fewer than one a minute" in capsys.readouterr().err


def test_a_warm_up_that_leaves_nothing_to_count_is_refused(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    (words,) = errors(capsys, "--trace", trace, "-f", file, "--warm-up", "1h")
    assert "leaves no request of serving/llama-standard to count" in words


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "nothing says which requests go to which"),
        (["--share", "fast=1"], "serving/llama-standard has none"),
        (["--share", "fast=1", "--share", "slow=1"], "no tier is called 'slow'"),
        (["--share", "fast=0", "--share", "standard=1"], "a weight above zero"),
        (["--share", "fast=1", "--share", "llama-fast=2"], "serving/llama-fast has a share already"),
        (["--share", "=1"], "no tier is called ''"),
        (["--speed-column", "speed", "--step-time", "slow:llama-3.1-8b/h100"], "there is no tier slow"),
    ],
)
def test_shares_of_several_tiers_must_add_up_to_sense(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path, flags: Sequence[str], words: str
) -> None:
    both = tmp_path / "both.yaml"
    both.write_text(tier() + "---\n" + tier("fast"), encoding="utf-8")
    assert words in "\n".join(errors(capsys, "--trace", trace, "-f", both, *flags))


def test_a_tier_that_stands_twice_or_gets_nothing_is_refused(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    twice = tmp_path / "twice.yaml"
    twice.write_text(tier() + "---\n" + tier(), encoding="utf-8")
    words = errors(capsys, "--trace", trace, "-f", twice, "--speed-column", "speed")
    assert any("serving/llama-standard: stands twice" in line for line in words)
    idle = tmp_path / "idle.yaml"
    idle.write_text(tier() + "---\n" + tier("batch"), encoding="utf-8")
    words = errors(capsys, "--trace", trace, "-f", idle, "--speed-column", "speed")
    assert "no request goes to serving/llama-batch (speed batch); they ask for 'fast'" in words[-1]


def test_files_without_tiers_are_refused_and_other_objects_left_out(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("apiVersion: v1\nkind: ConfigMap\n---\n{not: [yaml\n", encoding="utf-8")
    words = "\n".join(errors(capsys, "--trace", trace, "-f", other))
    assert "ConfigMap is no InferenceTier and was left out" in words
    assert "cannot be read as YAML" in words
    other.write_text("apiVersion: v1\nkind: ConfigMap\n", encoding="utf-8")
    assert "holds no InferenceTier" in "\n".join(errors(capsys, "--trace", trace, "-f", other))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("- a list\n", "a mapping of tier names"),
        ("llama-standard: fixed=0ms,batch=1us,context=1ns,prefill=1us\n", "fixed must be above zero"),
        ("llama-standard: fixed=1ms,batch=1us,context=1ns\n", "is no step time"),
        ("llama-standard: fixed=1ms,batch=1,context=1ns,prefill=1us\n", "is no step time"),
        ("{", "cannot be read"),
    ],
)
def test_step_times_that_are_none_are_refused(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path, content: str, words: str
) -> None:
    times = file.parent / "times.yaml"
    times.write_text(content, encoding="utf-8")
    assert words in "\n".join(errors(capsys, "--trace", trace, "-f", file, "--step-times", times))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--static", "0"], "--static: '0' is no list of sizes"),
        (["--static", "5-3"], "--static: '5-3'"),
        (["--static", ","], "--static: ','"),
        (["--jobs", "0"], "--jobs: at least 1"),
        (["--start", "-1"], "--start: a number of replicas"),
        (["--warm-up", "soon"], "--warm-up: 'soon' is not a duration"),
        (["--plot", "plot.pdf"], "must end in .svg or .png"),
        (["--plot", "none/plot.svg"], "there is no folder none"),
        (["-f", "-", "--trace", "-"], "only one can be - for stdin"),
        (["--share", "fast=1", "--speed-column", "speed"], "leave one out"),
    ],
)
def test_wrong_use_ends_before_anything_is_read(
    capsys: pytest.CaptureFixture[str], flags: Sequence[str], words: str
) -> None:
    assert words in "\n".join(errors(capsys, "--trace", "none.csv", "-f", "none.yaml", *flags, status=2))
