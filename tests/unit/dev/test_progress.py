"""A long step is seen to live: one line that is redrawn on a terminal, a plain line now and then in a log."""

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from dev import watch
from dev.cluster import progress
from dev.cluster.progress import Progress, following, last_line


def test_a_log_gets_whole_lines_and_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LOG_EVERY_S", 0.01)
    stream = io.StringIO()
    shown = Progress("building", stream)
    assert shown.line() == "building (0:00)"
    with shown:
        while "building" not in stream.getvalue():
            pass
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().startswith("building (0:00)\n")


def test_a_growing_log_is_shown_by_its_last_line_of_the_kind_that_matters(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert following("building x", log).line() == "building x (0:00)"
    log.write_text("STEP 1/2: FROM y\nnoise\nSTEP 2/2: RUN z\nmore noise\n\n")
    assert following("building x", log, "STEP ").line() == "building x: 2/2: RUN z (0:00)"
    assert last_line(log) == "more noise"


def test_a_log_that_is_cut_within_a_character_is_still_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(("\u00e9" * 5000).encode() + b"x\nlast\n")
    assert last_line(log) == "last"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """dev.watch around a command of Python."""
    words = [sys.executable, "-m", "dev.watch", "step", sys.executable, "-c", *command]
    return subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=Path(watch.__file__).parents[1]
    )


def test_of_pips_lines_those_are_shown_that_say_what_it_fetches_and_installs(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "Collecting kopf\n  Downloading kopf.whl (1 MB)\nInstalling collected packages: setuptools, kopf\n"
        "  Attempting uninstall: setuptools\n      Successfully uninstalled setuptools-65.5.0\n"
    )
    works = ("Collecting", "Downloading", "Installing")
    assert progress.last_line(log, among=works) == "Installing collected packages: setuptools, kopf"
    log.write_text("Collecting kopf\n  Downloading kopf.whl (1 MB)\n\nWARNING: slow\n")
    assert progress.last_line(log, among=works) == "Downloading kopf.whl (1 MB)"
    log.write_text("Successfully uninstalled setuptools-65.5.0\n")
    assert progress.last_line(log, among=works) == ""


def test_pips_option_is_not_the_title() -> None:
    assert watch.main(["--pip", "step", sys.executable, "-c", ""]) == 0
    assert watch.main(["--pip", "step"]) == 2


def test_a_command_that_succeeds_says_nothing_in_a_log() -> None:
    done = run("print('collecting')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_command_that_fails_shows_all_it_said_and_passes_its_status_on() -> None:
    done = run("import sys; print('reason'); sys.exit('and words')")
    assert done.returncode == 1
    assert "reason" in done.stdout
    assert "and words" in done.stdout
    assert "failed with exit status 1" in done.stdout


def test_a_program_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert watch.main(["step", "/no/such/program"]) == 127
    assert "/no/such/program" in capsys.readouterr().err
    assert watch.main(["step"]) == 2


def test_a_line_on_a_terminal_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_TERMINAL_EVERY_S", 0.01)
    monkeypatch.setenv("COLUMNS", "20")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, Progress("x" * 100, terminal):
        seen = os.read(ours, 1000).decode()
    os.close(ours)
    assert seen.startswith("\r\x1b[K" + "x" * 19)
    assert "x" * 20 not in seen
