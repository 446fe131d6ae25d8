"""The command as its tests call it, and a tier to plan for."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tierwright.cli import main

ROOT = Path(__file__).resolve().parents[2]
TIER = """\
apiVersion: tierwright.dev/v1alpha1
kind: InferenceTier
metadata: {{name: llama-{speed}, namespace: serving}}
spec:
  model: {{name: meta/llama-3.1-8b, source: "hf://unsloth/Meta-Llama-3.1-8B-Instruct@main"}}
  speed: {speed}
  engine: {{type: vllm, tensorParallel: 2{engine}}}
  hardware: {{accelerator: nvidia, count: 2}}
  scaling:
    mode: Auto
    minReplicas: 1
    maxReplicas: 8
    objectives: {{{objectives}}}
    coldStart: 60s
    cost: {{perReplicaHour: "2.5"}}
"""
OBJECTIVES = "timeToFirstToken: 1s, timePerOutputToken: 60ms"


def tier(speed: str = "standard", objectives: str = OBJECTIVES, engine: str = "") -> str:
    return TIER.format(speed=speed, objectives=objectives, engine=engine)


def plan(*words: object) -> list[str]:
    return ["plan", "--jobs", "1", *map(str, words)]


def errors(capsys: pytest.CaptureFixture[str], *words: object, status: int = 1) -> list[str]:
    """What is said of a plan that is refused; nothing is printed beside it."""
    assert main(plan(*words)) == status
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.splitlines()


def planned(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    """The plan as JSON."""
    assert main(plan("--json", *words)) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def command(*words: object) -> list[str]:
    program = "import sys\nfrom tierwright.cli import main\nif __name__ == '__main__': sys.exit(main())"
    return [sys.executable, "-c", program, "plan", *map(str, words)]


def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "operator")}


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
