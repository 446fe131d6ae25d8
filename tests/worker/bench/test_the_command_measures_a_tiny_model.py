"""From end to end: `tierwright-worker bench` with a tiny random model gives every figure, on the command line and as JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import save_file

from dev.worker import models
from tests.worker.server.tiny_model import CODEC, END, TEMPLATE
from tierwright_worker.bench.prompts import PROMPTS_SHA256
from tierwright_worker.bench.report import TARGETS
from tierwright_worker.cli.flags import model_flags_of, parser, settings_of

ROOT = Path(__file__).resolve().parents[3]


def write_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A random model of two layers with a tokenizer of single bytes."""
    config = {
        **models.RANDOM_MODELS["llama"],
        "vocab_size": CODEC.size,
        "eos_token_id": END,
        "max_position_embeddings": 2048,
    }
    monkeypatch.setattr(models, "RANDOM_MODELS", {"bench": config})
    models.write_random_model("bench", folder, lambda tensors, path: save_file(tensors, path))
    CODEC.tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def test_every_figure_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, target = tmp_path / "model", tmp_path / "figures.json"
    model.mkdir()
    write_model(model, monkeypatch)
    flags = {
        "--model": model,
        "--weights-cache": tmp_path,
        "--compile-cache": tmp_path / "programs",
        "--max-model-len": 2048,
        "--length-buckets": 2048,
        "--prefill-buckets": 256,
        "--max-num-seqs": 2,
        "--speculative-tokens": 2,
        "--passes": 1,
        "--starts": 1,
        "--every": 12,
        "--json": target,
    }
    words = [str(word) for flag in flags.items() for word in flag]
    done = subprocess.run(
        [sys.executable, "-m", "tierwright_worker", "bench", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "worker")},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    stored = json.loads(target.read_text(encoding="utf-8"))
    assert stored["prompts_sha256"] == PROMPTS_SHA256
    assert stored["figures"].keys() == TARGETS.keys()
    # What does not depend on the machine's speed: the answers are the same, fast, plain, and in a full engine.
    assert stored["figures"]["identical_greedy"] is True
    assert stored["measured"]["loaded"]["differing"] == []
    assert stored["figures"]["tokens_per_step"] >= 1.0
    assert stored["figures"]["warm_ready_seconds"] > 0
    assert stored["measured"]["process"]["weight_bytes"] > 0
    assert stored["measured"]["process"]["runs"][0]["pages"] > 0
    assert stored["measured"]["sets"].keys() == {"edit", "copy", "prose"}
    assert stored["measured"]["cache"]["numbers"] == "int8"
    assert 0.5 < stored["measured"]["cache"]["same"] / stored["measured"]["cache"]["of"] <= 1.0
    for key in TARGETS:
        assert key in done.stdout
    assert "pass 1/1" in done.stderr


def test_a_server_is_started_with_the_flags_of_the_benchmark(tmp_path: Path) -> None:
    given = ["bench", "--model", str(tmp_path), "--length-buckets", "256,1024", "--dtype", "bfloat16"]
    options = parser().parse_args(given)
    assert options.speculative_tokens == 8
    words = model_flags_of(options, {"max_num_seqs": 1, "max_model_len": 1024})
    served = settings_of(parser().parse_args(["serve", *words]))
    asked = settings_of(options)
    assert (served.max_num_seqs, served.max_model_len) == (1, 1024)
    assert served.length_buckets == (256, 1024)
    assert served.speculative_tokens == 8
    assert (served.dtype, served.model) == (asked.dtype, asked.model)
    assert served.compile_cache is None


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["bench", "--model", "m", "--only", "gears,everything"])
