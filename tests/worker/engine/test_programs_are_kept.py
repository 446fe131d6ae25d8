"""Compiled programs come back from the volume, and no damage to it keeps an engine from starting."""

import logging
import os
from pathlib import Path

import pytest

from dev.worker.models import random_tokens
from tests.worker.support import Bench, bench, greedy, random_model, run, texts
from tierwright_worker.engine.sequence import Request


def start(model: Path, folder: Path) -> Bench:
    """An engine of four programs."""
    config, parameters = random_model("llama", model)
    return bench(config, parameters, slots=1, max_context=128, draft_tokens=1, folder=folder)


def answer(machine: Bench) -> list[int]:
    """What it says."""
    request = Request("a", tuple(random_tokens("llama")), greedy(8))
    return texts(run(machine.engine(draft_tokens=1), [request]))["a"]


def test_a_second_start_loads_and_says_the_same(tmp_path: Path) -> None:
    first = start(tmp_path, tmp_path / "volume")
    second = start(tmp_path, tmp_path / "volume")
    assert set(first.warmed.origins) == {"compiled"}
    assert set(second.warmed.origins) == {"loaded"}
    assert answer(first) == answer(second)


def test_programs_of_other_shapes_are_compiled_beside_those_that_are_there(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    first = start(tmp_path, volume)
    config, parameters = random_model("llama", tmp_path)
    other = bench(config, parameters, slots=2, max_context=128, draft_tokens=1, folder=volume)
    assert set(other.warmed.origins) == {"compiled"}
    assert answer(other) == answer(first)
    assert set(start(tmp_path, volume).warmed.origins) == {"loaded"}


def test_a_damaged_program_is_compiled_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    volume = tmp_path / "volume"
    start(tmp_path, volume)
    files = sorted(volume.rglob("*.xla"))
    files[0].write_bytes(files[0].read_bytes()[:-1])
    files[1].write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        again = start(tmp_path, volume)
    assert again.warmed.origins["compiled"] == 2
    assert "damaged" in caplog.text
    assert set(start(tmp_path, volume).warmed.origins) == {"loaded"}


def test_what_killed_processes_left_half_written_does_not_pile_up(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    start(tmp_path, volume)
    program = next(volume.rglob("*.xla"))
    old, fresh = program.parent / ".unfinished-old", program.parent / ".unfinished-fresh"
    for file in (old, fresh):
        file.write_bytes(b"half")
    os.utime(old, (0, 0))
    program.unlink()
    start(tmp_path, volume)
    assert program.is_file()
    assert not old.exists()
    assert fresh.exists()


def test_a_volume_that_cannot_be_written_costs_time_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "volume"
    blocked.write_text("a file where a folder should be")
    with caplog.at_level(logging.WARNING):
        machine = start(tmp_path, blocked)
    assert set(machine.warmed.origins) == {"compiled"}
    assert "cannot be stored" in caplog.text
    assert len(answer(machine)) == 8
