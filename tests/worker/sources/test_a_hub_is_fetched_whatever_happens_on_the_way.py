"""Fetching from a hub: cut, slow, lying and refusing servers; the folder ends whole, or not marked complete."""

import json
from pathlib import Path

import pytest

from tests.worker.sources.conftest import LARGE, MODEL, Fetching, held, model_files
from tests.worker.sources.servers import Fault, Store
from tierwright_worker.errors import (
    CorruptModelError,
    ModelNotFoundError,
    SettingsError,
    SourceAccessError,
    SourceUnreachableError,
)
from tierwright_worker.sources.volume import MARKER, unfinished

SHARD = "model-00001-of-00002.safetensors"
SOURCE = "hf://owner/model@main"


def test_what_the_worker_reads_is_fetched_and_the_rest_is_named(
    hub_store: Store, fetching: Fetching, tmp_path: Path
) -> None:
    fetching(SOURCE, tmp_path)
    assert held(tmp_path) == model_files()
    assert "pytorch_model.bin" in fetching.text
    assert "onnx/model.onnx" in fetching.text
    assert "5 files, 0.5 MiB" in fetching.text
    assert not unfinished(tmp_path)
    marker = json.loads((tmp_path / MARKER).read_text())
    assert marker["source"] == SOURCE
    assert {entry["digest"].partition(":")[0] for entry in marker["files"]} == {"sha256", "git-blob"}


def test_a_complete_folder_needs_no_network(hub_store: Store, fetching: Fetching, tmp_path: Path) -> None:
    fetching(SOURCE, tmp_path)
    asked = len(hub_store.seen)
    fetching(SOURCE, tmp_path)
    assert len(hub_store.seen) == asked
    assert "is in" in fetching.said[-1]


def test_a_cut_download_goes_on_where_it_was_cut(
    hub_store: Store, fetching: Fetching, tmp_path: Path
) -> None:
    hub_store.faults[SHARD] = [Fault(cut=100_000), Fault(cut=50_000), Fault(cut=1)]
    fetching(SOURCE, tmp_path)
    assert held(tmp_path) == model_files()
    ranges = [seen.headers.get("range") for seen in hub_store.requests(SHARD)]
    assert ranges[0] is None
    assert ranges[1:] == ["bytes=100000-", "bytes=150000-", "bytes=150001-"]


def test_another_run_goes_on_where_one_gave_up(hub_store: Store, fetching: Fetching, tmp_path: Path) -> None:
    hub_store.faults[SHARD] = [Fault(cut=100_000), *[Fault(status=503)] * 4]
    with pytest.raises(SourceUnreachableError, match=r"broke off 4 times in a row.*answered 503.*is kept"):
        fetching(SOURCE, tmp_path)
    assert unfinished(tmp_path)
    assert SHARD not in held(tmp_path)
    fetching(SOURCE, tmp_path)
    assert held(tmp_path) == model_files()
    assert hub_store.requests(SHARD)[-1].headers.get("range") == "bytes=100000-"
    # What was whole already is not asked for again.
    assert len(hub_store.requests("model-00002-of-00002.safetensors")) == 1


def test_a_partial_file_of_another_commit_is_never_continued(
    hub_store: Store, fetching: Fetching, tmp_path: Path
) -> None:
    hub_store.faults[SHARD] = [Fault(cut=100_000), *[Fault(status=500)] * 4]
    with pytest.raises(SourceUnreachableError):
        fetching(SOURCE, tmp_path)
    hub_store.files[SHARD] = bytes(reversed(MODEL[SHARD]))
    fetching(SOURCE, tmp_path)
    assert held(tmp_path)[SHARD] == bytes(reversed(MODEL[SHARD]))
    assert hub_store.requests(SHARD)[-1].headers.get("range") is None


@pytest.mark.parametrize("name", [SHARD, "config.json"])
def test_wrong_bytes_are_fetched_once_more_and_then_refused(
    name: str, hub_store: Store, fetching: Fetching, tmp_path: Path
) -> None:
    hub_store.faults[name] = [Fault(wrong=True)]
    fetching(SOURCE, tmp_path / "once")
    assert held(tmp_path / "once") == model_files()
    hub_store.faults[name] = [Fault(wrong=True)] * 2
    with pytest.raises(CorruptModelError, match=f"{name} has another content than its .* says, twice"):
        fetching(SOURCE, tmp_path / "twice")
    assert name not in held(tmp_path / "twice")
    assert unfinished(tmp_path / "twice")


def test_a_server_without_ranges_is_read_from_the_start(
    hub_store: Store, fetching: Fetching, tmp_path: Path
) -> None:
    hub_store.faults[SHARD] = [Fault(cut=100_000), Fault(no_ranges=True)]
    fetching(SOURCE, tmp_path)
    assert held(tmp_path) == model_files()


def test_a_range_that_cannot_be_had_begins_anew(hub_store: Store, fetching: Fetching, tmp_path: Path) -> None:
    hub_store.faults[SHARD] = [Fault(cut=100_000), Fault(status=416)]
    fetching(SOURCE, tmp_path)
    assert held(tmp_path) == model_files()


def test_a_busy_hub_is_given_the_time_it_asks_for(
    hub_store: Store, fetching: Fetching, tmp_path: Path
) -> None:
    hub_store.faults["api"] = [Fault(status=429, headers={"retry_after": "1"})]
    hub_store.faults[SHARD] = [Fault(status=429, headers={"retry_after": "1"}), Fault(status=502)]
    fetching(SOURCE, tmp_path)
    assert held(tmp_path) == model_files()
    assert sum("the hub answered 429; next try in 1 s" in line for line in fetching.said) == 2
    assert sum("the hub answered 502" in line for line in fetching.said) == 1


def test_a_slow_download_shows_how_far_it_is(hub_store: Store, fetching: Fetching, tmp_path: Path) -> None:
    hub_store.faults[SHARD] = [Fault(slow=0.002)]
    fetching(SOURCE, tmp_path, every=0.05)
    lines = [line for line in fetching.said if "MiB/s" in line]
    assert len(lines) >= 3
    assert all("of 0.5 MiB" in line for line in lines)


def test_a_gated_model_says_what_to_do(
    hub_store: Store, fetching: Fetching, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub_store.token = "right"
    with pytest.raises(SourceAccessError, match=r"is gated: accept its licence.*HF_TOKEN is not set"):
        fetching(SOURCE, tmp_path)
    monkeypatch.setenv("HF_TOKEN", "wrong")
    with pytest.raises(SourceAccessError, match="asked with the token in HF_TOKEN"):
        fetching(SOURCE, tmp_path)
    monkeypatch.setenv("HF_TOKEN", "right")
    fetching(SOURCE, tmp_path)
    assert held(tmp_path) == model_files()
    assert "right" not in fetching.text


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("hf://owner/none", "is not there, or is private"),
        ("hf://owner/model@v9", "has no revision 'v9'"),
    ],
)
def test_what_is_not_there_is_said(
    source: str, says: str, hub_store: Store, fetching: Fetching, tmp_path: Path
) -> None:
    with pytest.raises(ModelNotFoundError, match=says):
        fetching(source, tmp_path)


def test_a_token_that_may_not_read_is_said_at_once(
    hub_store: Store, fetching: Fetching, tmp_path: Path
) -> None:
    hub_store.faults["api"] = [Fault(status=403, body=b"{}")]
    with pytest.raises(SourceAccessError, match=r"access refused \(403\)"):
        fetching(SOURCE, tmp_path)


def test_a_hub_that_does_not_answer_is_left_after_some_tries(
    fetching: Fetching, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(SourceUnreachableError, match="does not answer after 3 tries"):
        fetching(SOURCE, tmp_path, tries=3)
    assert not (tmp_path / MARKER).exists()


def test_an_answer_that_is_no_hubs_is_said(hub_store: Store, fetching: Fetching, tmp_path: Path) -> None:
    hub_store.faults["api"] = [Fault(status=200, body=b"<html>a proxy's login page</html>")]
    with pytest.raises(SourceUnreachableError, match="an answer that no hub gives"):
        fetching(SOURCE, tmp_path)


def test_a_folder_holds_one_source(hub_store: Store, fetching: Fetching, tmp_path: Path) -> None:
    fetching(SOURCE, tmp_path)
    with pytest.raises(SettingsError, match="holds hf://owner/model@main already"):
        fetching("hf://owner/other", tmp_path)


def test_a_file_that_has_gone_since_is_fetched_again(
    hub_store: Store, fetching: Fetching, tmp_path: Path
) -> None:
    fetching(SOURCE, tmp_path)
    (tmp_path / SHARD).unlink()
    fetching(SOURCE, tmp_path)
    assert held(tmp_path) == model_files()
    assert len(hub_store.requests("model-00002-of-00002.safetensors")) == 1
    assert SHARD in LARGE
