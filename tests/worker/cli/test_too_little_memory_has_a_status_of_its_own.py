"""Weights or caches that do not fit end with the status of too little memory, at the start and while serving alike."""

import json
from pathlib import Path

from tests.worker.cli.processes import process_of
from tests.worker.support import random_model
from tierwright_worker.cli.serve import own_kind
from tierwright_worker.errors import DeviceError, OutOfMemoryError


def test_a_cache_that_no_machine_holds_is_refused_at_the_start(tmp_path: Path) -> None:
    random_model("llama", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 1 << 22}))
    (tmp_path / "tokenizer.json").write_text(
        json.dumps({"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}})
    )
    flags = ("--max-model-len", 1 << 22, "--length-buckets", 1 << 22, "--max-num-seqs", 1 << 14)
    with process_of(
        "-m", "tierwright_worker", "serve", "--model", tmp_path, *flags, "--host", "127.0.0.1", "--port", 0
    ) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 71, errors
    last = errors.splitlines()[-1]
    assert "weights and cache do not fit into the device's memory" in last
    assert "use fewer slots or a shorter context" in last


def test_an_engine_that_ran_out_of_memory_is_no_broken_device() -> None:
    died = DeviceError("the engine died: OutOfMemoryError: program step-1-512 ran out of the device's memory")
    kept = own_kind(died, OutOfMemoryError("program step-1-512 ran out of the device's memory"))
    assert kept.exit_status == 71
    assert str(kept) == str(died)
    assert own_kind(died, RuntimeError("anything")) is died
    assert own_kind(died, None) is died
