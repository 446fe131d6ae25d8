"""Parts are kept from run to run on one machine; the page shows every figure, its target, and whether it may be trusted."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.worker.__main__ import parts_left
from bench.worker.engines import best_ratio, pair_ratio
from bench.worker.machine import Meanwhile, busy_seconds, machine_facts, watched
from bench.worker.page import ALL_TARGETS, BEGIN, END, PAGE, figure_rows, summary, write_page
from bench.worker.results import Results, load_results, read_results, write_results
from bench.worker.roofline import Roofline, measure_roofline

MACHINE = {"cpu": "one", "cpu_family": "1", "cpu_model": "2", "cpu_flags": ["avx2"], "cores": 2}
MORE = {"memory_gib": 1.0, "kernel": "6", "python": "3.11", "jax": "0"}
SAMPLES = {"tierwright": [3.0, 5.0, 4.0], "vllm": [2.0, 2.5, 1.0]}


def part(figures: Mapping[str, object], *, busy: bool = False, **more: object) -> dict[str, object]:
    """A part of the results."""
    common = {
        "at": "2026-01-01T00:00:00+00:00",
        "commit": "abc",
        "seconds": 90,
        "others": 0.5 if busy else 0.0,
    }
    return {**common, "busy": busy, "figures": dict(figures), **more}


def results() -> Results:
    """Two parts; one was disturbed."""
    return Results(
        {**MACHINE, **MORE},
        {
            "gears": part({"edit_speedup": 2.25, "identical_greedy": True}),
            "vllm": part(
                {"batch1_over_vllm": 1.1}, busy=True, samples={"batch1": SAMPLES}, pairs={"batch1": 2.0}
            ),
        },
    )


def test_ratios_of_engines_are_best_over_best_and_the_median_of_pairs() -> None:
    assert best_ratio(SAMPLES, "vllm") == pytest.approx(2.0)
    assert pair_ratio(SAMPLES, "vllm") == pytest.approx(2.0)
    assert pair_ratio({"tierwright": [1.0, 9.0, 8.0], "vllm": [1.0, 3.0, 4.0]}, "vllm") == pytest.approx(2.0)


def test_parts_are_kept_on_the_same_machine_alone(tmp_path: Path) -> None:
    path = tmp_path / "results" / "worker.json"
    write_results(path, results())
    kept = read_results(path, {**MACHINE, **MORE})
    assert kept.parts.keys() == {"gears", "vllm"}
    assert kept.figures == {"edit_speedup": 2.25, "identical_greedy": True, "batch1_over_vllm": 1.1}
    assert kept.busy == {"batch1_over_vllm"}
    assert read_results(path, {**MACHINE, **MORE, "cores": 64}).parts == {}
    assert read_results(tmp_path / "none.json", MACHINE).parts == {}
    assert load_results(path).parts.keys() == {"gears", "vllm"}
    path.write_text('{"format": 99}', encoding="utf-8")
    with pytest.raises(ValueError, match="format 99"):
        read_results(path, MACHINE)


def test_the_page_keeps_what_is_written_by_hand(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{BEGIN}\nold\n{END}\n\nAfter\n", encoding="utf-8")
    write_page(page, results())
    first = page.read_text(encoding="utf-8")
    assert first.startswith("# Before\n")
    assert first.endswith("After\n")
    assert "old" not in first
    assert "| edit_speedup | 2.25 | at least 2.00 | met |" in first
    assert "| batch1_over_vllm | 1.10 (busy machine) | at least 1.30 | open |" in first
    assert "Without a figure so far: copy_speedup, tokens_per_step" in first
    assert "are an impression" in first
    assert "| vllm | batch1 | 5.0 (4.0) | 2.5 (2.0) | 2.00 | 2.00 |" in first
    write_page(page, results())
    assert page.read_text(encoding="utf-8") == first
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(ValueError, match="lacks"):
        write_page(page, results())


def test_the_page_says_what_the_machine_could_do_at_best(tmp_path: Path) -> None:
    best = {
        "read_seconds": 0.025,
        "operations_per_second": 1.6e11,
        "parameters": 125_000_000,
        "product_parameters": 100_000_000,
        "steps_per_second": 40.0,
        "prompt_tokens_per_second": 800.0,
    }
    steps = {"rows": 9, "narrow": [0.04, 0.03], "wide": [0.05]}
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    known = {
        "machine": part({}, roofline=best),
        "steps": part({}, measured={"steps": steps, "sets": None}),
    }
    write_page(page, Results({**MACHINE, **MORE}, known))
    text = page.read_text(encoding="utf-8")
    assert "All 125.0 million weights are read once in 25.0 ms (20.0 GB/s): at most 40.0 steps" in text
    assert "at most 800 prompt tokens a second" in text
    assert "takes 30.0 ms, 1.20 times that reading; one of 9 rows 50.0 ms" in text


def test_the_page_names_answers_that_differ_and_says_what_a_process_takes(tmp_path: Path) -> None:
    settings = {"kernels": "avx2", "every": 6, "passes": 2}
    measured = {
        "plain": {"same": 48, "of": 48, "differing": []},
        "loaded": {"same": 46, "of": 48, "differing": ["edit-1", "copy-2"]},
        "cache": {"numbers": "int8", "same": 990, "of": 1000},
    }
    process = {
        "runs": [
            {"peak": 900e6, "resident": 800e6, "private": 700e6, "pages": 10},
            {"peak": 950e6, "resident": 1, "private": 1, "pages": 10},
        ],
        "weight_bytes": 500e6,
        "cache_bytes": 50e6,
        "page_bytes": 2e6,
    }
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    parts = {
        "process": part({}, measured={"process": process, "plain": None}),
        "gears": part({}, measured={**measured, "process": None}, settings=settings, interrupted=True),
    }
    write_page(page, Results({**MACHINE, **MORE}, parts))
    text = page.read_text(encoding="utf-8")
    assert "fast and plain: 48 of 48." in text
    assert "Kernels for processors: avx2. Only one prompt in 6 of the set was asked, 2 times" in text
    assert "loaded and plain: 46 of 48; not edit-1, copy-2." in text
    assert "only whole passes count" in text
    assert "with int8 keys and values, each after the recorded ones before it: 99.0% of 1,000." in text
    assert "at most 900 MB; with its context filled once 800 MB, of which 700 MB private" in text
    assert "keys and values at full length 50 MB, the prompt cache's pages then 20 MB" in text


def test_the_page_says_what_the_gain_consists_of(tmp_path: Path) -> None:
    rates = {
        "prompts": 2,
        "tokens": 100,
        "fast": 60.0,
        "plain": 20.0,
        "loaded": 10.0,
        "tokens_per_step": 4.5,
        "worst": 2.0,
        "best": 4.0,
        "end_to_end": 2.5,
    }
    steps = {"rows": 9, "narrow": [0.04], "wide": [0.05]}
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    parts = {
        "steps": part({}, measured={"steps": steps}),
        "gears": part({}, measured={"sets": {"edit": rates}}),
    }
    write_page(page, Results({**MACHINE, **MORE}, parts))
    text = page.read_text(encoding="utf-8")
    assert "edit 4.50 tokens a step ÷ 1.50 plain steps a step = 3.00" in text
    assert "A bare step of 9 rows costs 1.25 plain ones" in text


def test_what_is_complete_is_not_measured_again() -> None:
    known = {"gears": part({}, interrupted=True), "vllm": part({})}
    wanted = ["vllm", "gears", "machine"]
    assert parts_left(Results({}, known), wanted, resume=True) == ["machine", "gears"]
    assert parts_left(Results({}, known), wanted, resume=False) == ["machine", "gears", "vllm"]


def test_the_roofline_is_arithmetic_over_two_measurements() -> None:
    roofline = Roofline(0.02, 2e11, parameters=1, product_parameters=1_000_000_000)
    assert roofline.steps_per_second == pytest.approx(50)
    assert roofline.prompt_tokens_per_second == pytest.approx(100)
    measured = measure_roofline(100_000, 50_000)
    assert measured.read_seconds > 0
    assert measured.operations_per_second > 0


def test_all_figures_of_the_issue_have_a_row_and_a_target() -> None:
    figures = {key: target.value for key, target in ALL_TARGETS.items()}
    everything = Results({**MACHINE, **MORE}, {"gears": part(figures)})
    assert len(figure_rows(everything)) == len(ALL_TARGETS) == 13
    assert all(row[3] == "met" for row in figure_rows(everything))
    assert len(summary(everything)) == 13
    assert summary(Results()) == []


def test_the_documented_page_has_its_marks() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1


def test_what_others_use_is_told_from_what_is_ours() -> None:
    assert busy_seconds("cpu  100 50 50 900 10 0 0 100 0 0\ncpu0 1\n", 100) == pytest.approx(3.0)
    with watched() as meanwhile:
        sum(number * number for number in range(200_000))
    assert meanwhile.seconds > 0
    assert 0 <= meanwhile.others <= 1
    assert Meanwhile(1.0, 0.2).busy
    assert not Meanwhile(1.0, 0.01).busy
    assert machine_facts()["cores"] >= 1
