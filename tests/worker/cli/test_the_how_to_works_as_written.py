"""The commands of docs/how-to/bring-your-own-model.md that need no cluster, run as they stand, with a small model in place of the hub's."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.worker.cli.processes import free_port
from tests.worker.tiny_folder import write_tiny_folder

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-to" / "bring-your-own-model.md"
MAKES = "bash dev/worker_venv.sh"
"""Run only for what it adds to the environment that this test runs in already: the command."""


def test_the_commands_end_with_an_answer(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write_tiny_folder(source)
    (tmp_path / ".venv-worker").symlink_to(Path(sys.executable).parents[1])
    by_hand, in_a_tier, _ = PAGE.read_text(encoding="utf-8").partition("\n## In a tier\n")
    assert in_a_tier
    script = "\n".join(re.findall(r"```sh\n(.*?)```", by_hand, re.DOTALL))
    script, changed = re.subn(
        rf"^{MAKES}$", f"bash {ROOT}/dev/worker_venv.sh command", script, flags=re.MULTILINE
    )
    assert changed == 1
    for name, value in {"SOURCE": f"file://{source}", "PORT": str(free_port())}.items():
        script, changed = re.subn(rf"^{name}=\S+", f"{name}={value}", script, flags=re.MULTILINE)
        assert changed == 1
    done = subprocess.run(
        ["bash", "-em", "-c", script],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1][done.stdout.splitlines()[-1].index("{") :])
    assert answer["model"] == "mine"
    assert answer["usage"]["completion_tokens"] >= 1
    assert (tmp_path / "models" / "mine" / "model.safetensors").is_file()
