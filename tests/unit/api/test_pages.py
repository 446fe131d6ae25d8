"""The generated pages: every field, rule, condition and reason stands in them; stale files are told by name."""

from pathlib import Path

import pytest

from dev import generate
from dev.generate import Generated
from tierwright.api.conditions import CONDITIONS, REASONS, ConditionType, Reason
from tierwright.api.crd import PRINTER_COLUMNS
from tierwright.api.reference import reference_page
from tierwright.api.rules import RULES
from tierwright.api.runbook import runbook_page

PAGE = reference_page()


def test_every_reason_says_what_it_means_and_what_to_do() -> None:
    assert set(REASONS) == set(Reason)
    for reason, info in REASONS.items():
        assert info.meaning.endswith("."), reason
        assert info.remedy.endswith("."), reason


def test_every_condition_says_what_it_states() -> None:
    assert set(CONDITIONS) == set(ConditionType)


def test_the_runbook_has_a_section_for_each_reason() -> None:
    lines = runbook_page().splitlines()
    assert [line.removeprefix("## ") for line in lines if line.startswith("## ")] == [*Reason]


def section(reason: Reason) -> str:
    return runbook_page().partition(f"## {reason}\n")[2].partition("\n## ")[0]


def test_the_runbook_helps_to_read_the_scheduler_and_tells_of_a_held_back_workload() -> None:
    for words in ("0/5 nodes are available", "untolerated taint", "Insufficient nvidia.com/gpu"):
        assert words in section(Reason.UNSCHEDULABLE)
    assert "is held back" in section(Reason.CONFLICT)


@pytest.mark.parametrize(
    "row",
    [
        "| `spec.replicas` | integer | `1` | ≥ 0; ≤ 1000 |",
        "| `spec.suspend` | boolean | `false` |  |",
        "| `spec.speed` | string | required | lower-case letters",
        "| `spec.engine.type` | string | required | one of `vllm`, `jax` |",
        "| `spec.engine.extraArgs` | list of string |  | at most 64 items; each at most 1024 characters |",
        "| `spec.engine.env[].valueFrom.fieldRef.fieldPath` | string | required | a field that a pod",
        "| `spec.hardware.nodePool.matchLabels` | map of string |  | at most 32 entries; each a label value",
        "| `spec.podTemplate` | any object |",
        "| `spec.cache.weights.size` | integer or string | required |",
        "| `spec.traffic.fallback.when` | list of string | required | at least 1 items; at most 4 items; each one of",
        "| `status.conditions[].reason` | string | required | matches `",
    ],
)
def test_the_reference_has_a_row_for_each_field(row: str) -> None:
    assert row in PAGE


def test_the_reference_has_each_rule_condition_and_column() -> None:
    for rule in RULES:
        assert f"| `{rule.at}.{rule.field}` | {rule.message} |" in PAGE
    for condition in ConditionType:
        assert f"| {condition} |" in PAGE
    for column in PRINTER_COLUMNS:
        assert f"| {column['name']} | `{column['jsonPath']}` |" in PAGE


def test_the_tables_are_whole() -> None:
    for line in PAGE.splitlines():
        if line.startswith("| `spec.") and "| always" not in line and "| on change" not in line:
            assert line.replace("\\|", "").count("|") == 6, line


def test_generated_files_are_written_once_and_then_agree(tmp_path: Path) -> None:
    files = (Generated("a/b.txt", lambda: "text\n"),)
    assert generate.differing(files, tmp_path) == ["a/b.txt"]
    assert generate.write(files, tmp_path) == ["a/b.txt"]
    assert (tmp_path / "a" / "b.txt").read_text() == "text\n"
    assert generate.differing(files, tmp_path) == []
    assert generate.write(files, tmp_path) == []


def test_the_check_names_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "FILES", (Generated("a.txt", lambda: "new"),))
    assert generate.main(["--check"]) == 1
    assert "a.txt" in capsys.readouterr().err
    assert generate.main([]) == 0
    assert capsys.readouterr().out == "wrote a.txt\n"
    assert generate.main(["--check"]) == 0
