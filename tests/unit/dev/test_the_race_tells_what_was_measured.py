"""The demo's race: figures, table, strips and picture follow from what arrived, and from nothing else."""

import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import yaml

from dev.demo.kept_caches import forget_old_programs, volume
from dev.demo.race import Answer, Run, counters, prompts
from dev.demo.race_picture import svg
from dev.demo.race_table import WIDTH, points, strips, table


def answer(kind: str, *arrivals: tuple[float, int], cached: int = 0) -> Answer:
    """An answer whose tokens came at these times."""
    return Answer(kind, "text", 100, cached, arrivals)


FAST = Run(
    (answer("edit", (0.2, 1), (0.3, 5), (0.7, 11)), answer("prose", (0.2, 1), (1.2, 6))),
    answer("edit", (0.1, 1), cached=64),
    drafted=20,
    accepted=15,
)
STANDARD = Run(
    (answer("edit", (0.2, 1), (2.2, 11)), answer("prose", (0.4, 1), (1.4, 6))), answer("edit", (0.1, 1)), 0, 0
)
RUNS = {"fast": FAST, "standard": STANDARD}


def test_tokens_after_the_first_are_counted_over_the_seconds_they_took() -> None:
    assert round(FAST.tokens_per_second(("edit",)), 6) == 20
    assert round(STANDARD.tokens_per_second(("edit",)), 6) == 5
    assert round(FAST.tokens_per_second(), 6) == 10
    assert FAST.tokens_per_second(("copy",)) == 0
    assert FAST.first_token_s == 0.2
    assert (FAST.acceptance, STANDARD.acceptance) == (0.75, None)


def test_answers_without_a_token_have_no_speed() -> None:
    assert Run((answer("edit"), answer("prose", (0.1, 1))), answer("edit"), 0, 0).tokens_per_second() == 0


def test_the_table_holds_a_line_for_each_speed() -> None:
    head, fast, standard = table(RUNS).splitlines()
    assert head.split()[0] == "speed"
    assert "20.0 tok/s" in fast
    assert "75%" in fast
    assert "64 of 100" in fast
    assert "-" in standard.split()
    assert len({len(head), len(fast), len(standard)}) == 1


def test_the_strips_have_one_scale() -> None:
    assert points(FAST)[-1] == (1.9, 17)
    fast, standard = strips(RUNS).splitlines()
    assert "17 tokens in 1.9 s" in fast
    assert "17 tokens in 3.6 s" in standard
    assert len(standard.removeprefix("standard  ").split(" 17 ")[0]) == WIDTH
    assert strips({"fast": Run((answer("edit"),), answer("edit"), 0, 0)}) == ""


def test_the_picture_is_valid_and_ends_where_the_measurements_do() -> None:
    root = ElementTree.fromstring(svg(RUNS, "a <b> & c\nd"))  # noqa: S314 - made right here
    lines = [each for each in root if each.tag.endswith("polyline")]
    assert len(lines) == 2
    texts = [each.text for each in root if each.tag.endswith("text")]
    assert "a <b> & c" in texts
    assert "fast 10 tokens/s" in texts


def test_counters_are_read_with_and_without_labels() -> None:
    page = (
        'vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="a"} 12.0\n'
        "vllm:spec_decode_num_accepted_tokens_total 7.0\n"
        "vllm:spec_decode_num_accepted_tokens_per_pos_total 99.0\n"
    )
    assert counters(page) == (12, 7)
    assert counters("") == (0, 0)


def test_the_prompts_are_of_known_kinds() -> None:
    assert {prompt.kind for prompt in prompts()} == {"edit", "copy", "prose"}
    assert all(16 <= prompt.max_tokens <= 160 for prompt in prompts())


def test_a_volume_is_for_one_tier_and_old_programs_go(tmp_path: Path) -> None:
    made = yaml.safe_load(yaml.safe_dump(volume("fast", tmp_path)))
    assert made["spec"]["storageClassName"] == "demo-fast"
    for age in range(9):
        folder = tmp_path / f"{age}"
        folder.mkdir()
        os.utime(folder, (0, 1_000_000 - 50_000 * age))
    forget_old_programs(tmp_path, 1_000_000)
    assert sorted(path.name for path in tmp_path.iterdir()) == list("012345")
    forget_old_programs(tmp_path / "nothing", 0)
