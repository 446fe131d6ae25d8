"""What a line of the log says about time, tier and error."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from tierwright.telemetry import logs


@pytest.fixture(autouse=True)
def restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def lines(log_format: str) -> list[str]:
    stream = io.StringIO()
    logs.configure("INFO", log_format, stream)
    log = logging.getLogger("tierwright.test")
    with logs.about_tier("serving", "fast"):
        log.info("applied %s", "x")
        try:
            raise ValueError("broken")
        except ValueError:
            log.exception("failed")
    log.debug("hidden")
    log.warning("outside")
    return stream.getvalue().splitlines()


def test_json_lines_hold_the_tier_while_it_is_reconciled_and_errors_in_one_line() -> None:
    records = [json.loads(line) for line in lines("json")]
    assert [record["message"] for record in records] == ["applied x", "failed", "outside"]
    assert (records[0]["namespace"], records[0]["name"]) == ("serving", "fast")
    assert "ValueError: broken" in records[1]["error"]
    assert "name" not in records[2]
    assert records[0]["time"].endswith("Z")
    assert records[2]["level"] == "warning"


def test_text_lines_hold_the_tier_too() -> None:
    text = lines("text")
    assert "tierwright.test [serving/fast] applied x" in text[0]
    assert "tierwright.test outside" in text[-1]


@pytest.mark.parametrize(("level", "shown"), [("INFO", False), ("DEBUG", True)])
def test_each_try_of_each_watch_is_for_those_who_debug(level: str, shown: bool) -> None:
    stream = io.StringIO()
    logs.configure(level, "text", stream)
    logging.getLogger("kopf._core.reactor.observation").error(
        "Request attempt #1/5 failed; will retry: GET /"
    )
    logging.getLogger("kopf._core.reactor.observation").error("Something else")
    assert ("Request attempt" in stream.getvalue()) is shown
    assert "Something else" in stream.getvalue()
