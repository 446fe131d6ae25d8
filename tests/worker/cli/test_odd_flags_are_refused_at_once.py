"""A flag that cannot mean anything is refused by the command line, before anything is read, with the reason."""

from pathlib import Path

import pytest

from tierwright_worker import __version__
from tierwright_worker.cli.flags import parser


@pytest.mark.parametrize(
    ("flag", "value", "says"),
    [
        ("--port", "99999", "not from 0 to 65535"),
        ("--port", "-1", "not from 0 to 65535"),
        ("--port", "http", "no whole number"),
        ("--api-key", "", "it is empty"),
        ("--api-key", " ", "it is empty"),
        ("--served-model-name", "", "it is empty"),
        ("--prompt-cache-ttl", "0", "--prompt-cache-page 0 switches the cache off"),
        ("--prompt-cache-ttl", "nan", "seconds from 0 on are needed"),
        ("--prompt-cache-ttl", "soon", "no number"),
        ("--shutdown-timeout", "-1", "seconds from 0 on are needed"),
        ("--shutdown-timeout", "inf", "seconds from 0 on are needed"),
        ("--speculative-tokens", "65", "not from 0 to 64"),
        ("--prompt-cache-host-pages", "100000000000", "not from 0 to"),
        ("--max-num-seqs", "0", "not from 1"),
        ("--max-num-queued-reqs", "99999999999999999999", "not from 1"),
        ("--length-buckets", "128,abc", "'abc' is no whole number"),
        ("--length-buckets", ",", "no whole number"),
        ("--prefill-buckets", "64,,256", "no whole number"),
    ],
)
def test_a_value_out_of_range_is_named(
    flag: str, value: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["serve", "--model", "x", flag, value])
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"argument {flag}: " in last
    assert says in last


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"tierwright-worker {__version__}\n"


def test_a_benchmark_is_not_begun_whose_results_could_not_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = tmp_path / "nowhere" / "figures.json"
    with pytest.raises(SystemExit):
        parser().parse_args(["bench", "--model", "x", "--json", str(wanted)])
    assert "its folder is not there" in capsys.readouterr().err
