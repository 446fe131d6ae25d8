"""The chart's rules, by promtool: they are valid, alert when they must and stay silent when they must; each has a section in the docs."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev import chart
from tests.support.prometheus import programs

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
RULES = chart.CHART / "files" / "prometheus-rules.yaml"
CASES = Path(__file__).with_name("prometheus") / "rules.test.yaml"
PAGE = ROOT / "docs/how-to/monitor-the-operator.md"


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def promtool(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [programs().tool, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        cwd=CASES.parent,
    )


def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    done = promtool("check", "rules", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(rules())} rules found" in done.stdout


def test_alerts_fire_when_they_must_and_not_otherwise() -> None:
    done = promtool("test", "rules", CASES.name)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_expectation_would_be_noticed(tmp_path: Path) -> None:
    cases = yaml.safe_load(CASES.read_text())
    cases["rule_files"] = [str(RULES)]
    cases["tests"] = [case for case in cases["tests"] if "full pool" in case["name"]]
    cases["tests"][0]["alert_rule_test"][1]["exp_alerts"] = []
    broken = tmp_path / "broken.test.yaml"
    broken.write_text(yaml.safe_dump(cases))
    assert promtool("test", "rules", str(broken)).returncode != 0


def test_every_alert_is_tried_by_a_case_in_which_it_fires() -> None:
    cases = yaml.safe_load(CASES.read_text())["tests"]
    fired = {
        each["alertname"] for case in cases for each in case.get("alert_rule_test", []) if each["exp_alerts"]
    }
    assert fired == {alert["alert"] for alert in alerts()}


def test_every_alert_says_what_to_do_about_it() -> None:
    headings = {
        heading.strip().lower() for heading in re.findall(r"^### (.*)$", PAGE.read_text(), re.MULTILINE)
    }
    for alert in alerts():
        page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
        assert ROOT / page == PAGE
        assert anchor in headings, f"{alert['alert']} has no section #{anchor} in {page}"
        assert alert["labels"]["severity"] in ("critical", "warning", "info")
        assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
