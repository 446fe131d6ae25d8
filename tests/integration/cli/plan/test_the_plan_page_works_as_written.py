"""The commands of docs/how-to/plan-capacity.md, run as they stand."""

import os
import sys
from pathlib import Path

from tests.support.documents import ROOT, run_story


def test_the_plan_page_works_as_written(tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    said = run_story("plan", tmp_path, {"PATH": path, "PYTHONPATH": str(ROOT / "operator")})
    assert said.count("A model, no measurement") == 4
    assert said.count("\n* ") >= 2
    assert "cheapest that keeps the promise" in said
    assert "default/llama-70b-fast" in said
    assert (tmp_path / "plan.svg").read_text(encoding="utf-8").startswith("<?xml")
