"""A tier file and a trace."""

from pathlib import Path

import pytest

from tests.unit.cli_plan.command import tier


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tier.yaml"
    path.write_text(tier(), encoding="utf-8")
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Twenty minutes: two requests a second, ten of them in the middle third."""
    lines = ["arrival_s,input_tokens,output_tokens,speed"]
    at = 0.0
    while at < 1200:
        lines.append(f"{at:.3f},1000,100,{'fast' if len(lines) % 5 == 0 else 'standard'}")
        at += 0.1 if 400 <= at < 800 else 0.5
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
