"""A draft model that does not belong to what is served is one clear error; one that does drafts from the command line's flags."""

import threading
from pathlib import Path

import pytest

from tests.worker.support import greedy
from tests.worker.tiny_folder import write_tiny_folder
from tierwright_worker.cli.flags import WorkerSettings, parser, settings_of
from tierwright_worker.cli.start import read_model, running_engine, warm_engine
from tierwright_worker.engine.service import EngineRequest, Progress
from tierwright_worker.errors import SettingsError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model to serve."""
    return write_tiny_folder(tmp_path_factory.mktemp("served") / "model")


def settings(folder: Path, *flags: object) -> WorkerSettings:
    """Of `serve`, for one slot and one length."""
    shapes = ("--max-num-seqs", 1, "--max-model-len", 128, "--prefill-buckets", 64, "--prompt-cache-page", 0)
    words = ["serve", "--model", folder, "--weights-cache", folder, *shapes, *flags]
    return settings_of(parser().parse_args([str(word) for word in words]))


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--speculation-method", "draft", "--speculative-tokens", 4), "needs --speculative-model"),
        (("--speculative-model", "x"), "is for --speculation-method draft"),
        (("--speculation-method", "draft", "--speculative-model", "x"), "needs --speculative-tokens"),
        (("--layered-entropy", -1), "--layered-entropy must be at least 0"),
        (("--layered-entropy", "nan"), "--layered-entropy must be at least 0"),
        (("--layered-entropy", 1, "--layered-share", 0), "--layered-share above 0"),
        (("--prompt-cache-page", 200), "longer than the shortest length bucket of 128"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(
    folder: Path, flags: tuple[object, ...], says: str
) -> None:
    own = settings(folder, *flags)
    with pytest.raises(SettingsError, match=says):
        warm_engine(own, read_model(own))


def test_a_draft_of_other_tokens_or_of_a_shorter_context_is_refused(folder: Path, tmp_path: Path) -> None:
    other = write_tiny_folder(tmp_path / "other", letters=50)
    short = write_tiny_folder(tmp_path / "short")
    config = (short / "config.json").read_text(encoding="utf-8")
    assert '"max_position_embeddings": 512' in config
    (short / "config.json").write_text(
        config.replace('"max_position_embeddings": 512', '"max_position_embeddings": 64'), encoding="utf-8"
    )
    for path, says in ((other, "has another tokenizer"), (short, "was trained for 64 tokens")):
        flags = ("--speculation-method", "draft", "--speculative-model", path, "--speculative-tokens", 2)
        own = settings(folder, *flags)
        with pytest.raises(SettingsError, match=says):
            warm_engine(own, read_model(own))


def test_a_pair_that_fits_drafts_and_says_how(folder: Path, tmp_path: Path) -> None:
    draft = write_tiny_folder(tmp_path / "draft", "mistral")
    flags = ("--speculation-method", "draft", "--speculative-model", draft, "--speculative-tokens", 2)
    own = settings(folder, *flags, "--layered-entropy", 0.5)
    model = read_model(own)
    runner = running_engine(own, model, warm_engine(own, model))
    told: list[Progress] = []
    ended = threading.Event()

    def listen(progress: Progress) -> None:
        told.append(progress)
        if progress.finish is not None:
            ended.set()

    try:
        request = EngineRequest("a", tuple(range(3, 40)), greedy(20, ignore_eos=True))
        assert runner.submit([request], listen).admitted
        assert ended.wait(60)
    finally:
        runner.stop()
    assert sum(len(progress.tokens) for progress in told) == 20
    facts = runner.facts.speculation
    assert (facts.method, facts.most_tokens, facts.lossy) == ("draft", 2, "entropy<=0.5,share>=0.5")
    assert runner.facts.row_exact
    assert runner.facts.agreement == 1.0
    assert runner.state().speculation in ("plain", "probe", "pays")
