"""Where a start finds that steps round by their shape, it measures how far speculation keeps to plain decoding."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.worker.tiny_folder import write_tiny_folder
from tierwright_worker.cli import start
from tierwright_worker.cli.flags import parser, settings_of
from tierwright_worker.engine.executor import Executor, WarmUp
from tierwright_worker.engine.programs import ProgramStore
from tierwright_worker.engine.warm_up import warm_up


@pytest.mark.parametrize("exact", [True, False])
def test_it_is_measured_on_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exact: bool) -> None:
    def found(executor: Executor, store: ProgramStore, *, require_exact: bool) -> WarmUp:
        """A warm-up that found what the test says, and an agreement that no measurement gives."""
        return replace(warm_up(executor, store, require_exact=require_exact), exact=exact, agreement=-1.0)

    monkeypatch.setattr(start, "warm_up", found)
    folder = write_tiny_folder(tmp_path / "model")
    shapes = ("--max-num-seqs", 2, "--max-model-len", 128, "--prefill-buckets", 64, "--prompt-cache-page", 0)
    words = ["serve", "--model", folder, "--weights-cache", folder, *shapes, "--speculative-tokens", 2]
    settings = settings_of(parser().parse_args([*map(str, words), "--dtype", "bfloat16"]))
    model = start.read_model(settings)
    runner = start.running_engine(settings, model, start.warm_engine(settings, model))
    runner.stop()
    # The kernels round alike whatever was said above, so every token agrees; without them nearly all do.
    assert runner.facts.agreement == -1.0 if exact else 0.9 <= (runner.facts.agreement or 0.0) <= 1.0
    assert runner.facts.row_exact is exact
