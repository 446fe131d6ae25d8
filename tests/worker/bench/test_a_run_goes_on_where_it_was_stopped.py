"""A run that is stopped keeps its complete parts, and a resumed one measures what is left; what failed is said by the status."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.worker import __main__ as command
from bench.worker.page import BEGIN, END
from bench.worker.setup import Setup, UnavailableError

Answer = dict[str, Any] | BaseException


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[int, list[str]]]]:
    """Runs the command with parts that answer as told; its status, and the parts that were measured."""
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    monkeypatch.setattr(command, "ensure_kernels", lambda *_: "none")

    def started(*words: str, **answers: Answer) -> tuple[int, list[str]]:
        asked: list[str] = []

        def part(name: str, answer: Answer) -> Callable[[Setup], dict[str, Any]]:
            def measure(_: Setup) -> dict[str, Any]:
                asked.append(name)
                if isinstance(answer, BaseException):
                    raise answer
                return answer

            return measure

        monkeypatch.setattr(command, "MEASURES", {name: part(name, one) for name, one in answers.items()})
        given = {"--model": "m.gguf", "--cache": tmp_path, "--results": tmp_path / "r.json", "--page": page}
        flags = [str(word) for pair in given.items() for word in pair]
        return command.main([*flags, "--only", ",".join(answers), *words]), asked

    before = signal.getsignal(signal.SIGTERM)
    yield started
    signal.signal(signal.SIGTERM, before)


def kept(folder: Path) -> dict[str, dict[str, Any]]:
    """The parts in the results."""
    parts: dict[str, dict[str, Any]] = json.loads((folder / "r.json").read_text(encoding="utf-8"))["parts"]
    return parts


def test_a_stopped_run_goes_on_with_what_is_left(
    run: Callable[..., tuple[int, list[str]]], tmp_path: Path
) -> None:
    whole: dict[str, Any] = {"figures": {"edit_speedup": 3.0}}
    half = {"figures": {"edit_speedup": 2.0}, "interrupted": True}
    machine: dict[str, Any] = {"figures": {}}
    assert run(machine=machine, gears=half, vllm=machine) == (130, ["machine", "gears"])
    assert kept(tmp_path)["gears"]["figures"] == {"edit_speedup": 2.0}
    assert "| edit_speedup | 2.00" in (tmp_path / "page.md").read_text(encoding="utf-8")
    stopped = run("--resume", machine=machine, gears=whole, vllm=KeyboardInterrupt())
    assert stopped == (130, ["gears", "vllm"])
    assert kept(tmp_path).keys() == {"machine", "gears"}
    assert run("--resume", machine=machine, gears=half, vllm=machine) == (0, ["vllm"])
    assert kept(tmp_path)["gears"]["figures"] == {"edit_speedup": 3.0}


def test_a_part_that_cannot_be_measured_costs_the_others_nothing(
    run: Callable[..., tuple[int, list[str]]], tmp_path: Path
) -> None:
    part: dict[str, Any] = {"figures": {}}
    assert run(machine=part, vllm=UnavailableError("no network"), llamacpp=part)[0] == 1
    assert kept(tmp_path).keys() == {"machine", "llamacpp"}


def test_a_new_run_keeps_old_parts_until_theirs_are_there(
    run: Callable[..., tuple[int, list[str]]], tmp_path: Path
) -> None:
    old: dict[str, Any] = {"figures": {"copy_speedup": 1.0}}
    assert run(gears=old)[0] == 0
    assert run(gears=KeyboardInterrupt()) == (130, ["gears"])
    assert kept(tmp_path)["gears"]["figures"] == {"copy_speedup": 1.0}
