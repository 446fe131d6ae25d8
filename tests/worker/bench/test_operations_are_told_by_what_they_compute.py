"""A program's operations are told by their shapes, times are medians over runs, and the page sets them beside the roofline."""

import json
from pathlib import Path

import pytest

from bench.worker import profile
from bench.worker.operations import REST, Kind, gathered, kinds_of, operations_of
from bench.worker.profile_page import profile_lines
from tests.worker.bench.test_the_command_measures_a_tiny_model import write_model
from tierwright_worker.models.config import read_config

PROGRAM = """
ENTRY %main.1 (parameters: f32[1]) -> f32[2,64] {
  %qkv = f32[2,{joined}]{1,0} custom-call(%a, %w, %s), custom_call_target="tierwright_linear", \
operand_layout_constraints={f32[2,{hidden}]{1,0}, f32[3,{hidden},32]{2,1,0}, f32[0]{0}}, api_version=API
  %mixed.2 = (f32[1,2,4,16]{3,2,1,0}, f32[1,2,256,16]{3,2,1,0}) custom-call(%q), \
custom_call_target="tierwright_attention", operand_layout_constraints={f32[1,2,4,16]{3,2,1,0}}, api_version=API
  %loop = (s32[], f32[2]{0}) while(%start), condition=%c, body=%b
  ROOT %sum.fusion = f32[2,64]{1,0} fusion(%mixed.2), kind=kLoop, calls=%fused
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny random model."""
    write_model(tmp_path, monkeypatch)
    return tmp_path


def test_operations_are_told_by_what_they_compute(folder: Path) -> None:
    config = read_config(folder)
    joined = config.q_size + 2 * config.kv_size
    text = PROGRAM.replace("{joined}", str(joined)).replace("{hidden}", str(config.hidden_size))
    kinds = kinds_of(text, config, rows=2, slots=1, position=10, item=4, cache_item=2)
    assert kinds["qkv"].name == "queries, keys and values"
    assert kinds["qkv"].bytes == 4 * config.hidden_size * joined
    assert kinds["qkv"].operations == 2 * 2 * config.hidden_size * joined
    assert kinds["mixed.2"].name == "attention"
    assert kinds["mixed.2"].bytes == 2 * config.kv_heads * config.head_dim * 12 * 2
    assert kinds["mixed.2"].operations == 4 * config.heads * config.head_dim * (11 + 12)
    assert kinds["sum.fusion"].name == REST
    # What a loop holds is listed itself.
    assert "loop" not in kinds


def test_a_disturbed_run_does_not_count_and_calls_of_a_kind_add_up() -> None:
    kinds = {
        "a": Kind("down", 100, 10),
        "b": Kind("down", 100, 10),
        "c": Kind(REST, 0, 0),
        "d": Kind("up", 1, 1),
    }
    times = gathered(
        [("a", 1.0), ("a", 9.0), ("a", 2.0), *[("b", 0.5)] * 6, *[("c", 0.25)] * 3, ("python", 7.0)]
    )
    down, rest = operations_of(kinds, times, 3)
    # `a` once a run, at its median; `b` twice a run.
    assert (down.name, down.calls) == ("down", 3)
    assert down.seconds == pytest.approx(2.0 + 2 * 0.5)
    assert (down.bytes, down.operations) == (300, 30)
    assert (rest.name, rest.calls, rest.seconds) == (REST, 1, 0.25)


def test_a_real_program_is_profiled_whole(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile, "TIMES", 2)
    target = tmp_path / "profile.json"
    given = {"--model": folder, "--weights-cache": tmp_path, "--compile-cache": tmp_path, "--json": target}
    assert profile.main([str(word) for pair in given.items() for word in pair]) == 0
    stored = json.loads(target.read_text(encoding="utf-8"))
    assert [case["case"]["name"] for case in stored["cases"]] == [case.name for case in profile.CASES]
    for case in stored["cases"]:
        assert case["seconds"] > 0
        assert case["operations"]
        assert all(each["seconds"] > 0 for each in case["operations"])
    best = {"parameters": 1000, "read_seconds": 1e-6, "operations_per_second": 1e9}
    for roofline in (best, {}):
        lines = profile_lines(stored, roofline)
        assert lines[2].startswith("| operation | one row | nine rows | eight slots |")
        assert any(line.startswith("| the whole call, untraced") for line in lines)
        assert any(line.startswith("| at best") for line in lines) == bool(roofline)
