"""The commands of docs/how-to/bring-your-own-model.md, run as they stand, with a small model in place of the hub's."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers

from dev.worker.models import RANDOM_MODELS
from tests.worker.cli.test_the_command_serves_and_fails_plainly import free_port
from tests.worker.support import random_model

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-to" / "bring-your-own-model.md"


def test_the_commands_end_with_an_answer(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    random_model("llama", source)
    words = {f"w{at}": at for at in range(RANDOM_MODELS["llama"]["vocab_size"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(source / "tokenizer.json"))
    (source / "chat_template.jinja").write_text(
        "{% for message in messages %}{{ message.content }} {% endfor %}"
    )
    command = tmp_path / "bin" / "tierwright-worker"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tierwright_worker "$@"\n')
    command.chmod(0o755)
    script = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    for name, value in {"SOURCE": f"file://{source}", "PORT": str(free_port())}.items():
        script, changed = re.subn(rf"^{name}=\S+", f"{name}={value}", script, flags=re.MULTILINE)
        assert changed == 1
    done = subprocess.run(
        ["bash", "-em", "-c", script],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "worker"),
            "PATH": f"{command.parent}:{os.environ['PATH']}",
        },
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
