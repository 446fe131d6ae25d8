"""What lies on the volume: locks, full and read-only disks, half-fetched folders, and which files are taken at all."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.worker.sources.conftest import MODEL, Fetching, held, model_files
from tests.worker.sources.servers import Fault, Store
from tierwright_worker.cli import main
from tierwright_worker.errors import (
    CacheVolumeError,
    ModelNotFoundError,
    SettingsError,
    SourceUnreachableError,
    UnsupportedModelError,
)
from tierwright_worker.loading.model import hugging_face_folder
from tierwright_worker.sources import volume
from tierwright_worker.sources.remote import RemoteFile
from tierwright_worker.sources.retry import Patience, retry_after
from tierwright_worker.sources.selection import select
from tierwright_worker.sources.source import FolderSource, HubSource, parse_source

ROOT = Path(__file__).resolve().parents[3]
SOURCE = "hf://owner/model@main"
SHARD = "model-00001-of-00002.safetensors"
COMMAND = (sys.executable, "-m", "tierwright_worker", "fetch", "--source", SOURCE, "--to")
in_a_mount = pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0
    if shutil.which("unshare")
    else True,
    reason="mounting a small volume needs a mount namespace of one's own",
)


def fetch_on_mount(folder: Path, options: str) -> subprocess.CompletedProcess[str]:
    """The command on a volume of its own, mounted with `options` for it alone."""
    folder.mkdir()
    script = f'mount -t tmpfs -o {options} none "$1" && shift && exec "$@"'
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", str(folder), *COMMAND, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "worker")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@in_a_mount
def test_a_volume_that_is_too_small_is_refused_before_the_first_byte(
    hub_store: Store, tmp_path: Path
) -> None:
    done = fetch_on_mount(tmp_path / "volume", "size=300k")
    assert done.returncode == 73, done.stderr
    assert "0.5 MiB are still to be fetched; give the volume more space" in done.stderr.splitlines()[-1]
    assert hub_store.requests(SHARD) == []


@in_a_mount
def test_a_read_only_volume_is_named(hub_store: Store, tmp_path: Path) -> None:
    done = fetch_on_mount(tmp_path / "volume", "ro,size=9m")
    assert done.returncode == 73, done.stderr
    assert "cannot be written" in done.stderr.splitlines()[-1]


@in_a_mount
def test_a_volume_that_fills_up_meanwhile_is_named(hub_store: Store, tmp_path: Path) -> None:
    # Room for the bytes, none for the files themselves: what statfs promises does not hold.
    done = fetch_on_mount(tmp_path / "volume", "size=9m,nr_inodes=6")
    assert done.returncode == 73, done.stderr
    assert "is full" in done.stderr.splitlines()[-1]


def test_a_killed_fetch_is_unfinished_and_the_next_one_ends_it(hub_store: Store, tmp_path: Path) -> None:
    hub_store.faults[SHARD] = [Fault(slow=0.02)]
    process = subprocess.Popen(
        [*COMMAND, str(tmp_path)], env={**os.environ, "PYTHONPATH": str(ROOT / "worker")}
    )
    deadline = time.monotonic() + 30
    others = set(model_files()) - {SHARD}
    while not (
        others <= set(held(tmp_path))
        and any(path.stat().st_size > 5000 for path in (tmp_path / volume.WORK).glob("*.part"))
    ):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    assert not [seen for seen in hub_store.seen if "owner/model" not in seen.path], (
        "it tells nothing of itself"
    )
    assert volume.unfinished(tmp_path)
    with pytest.raises(ModelNotFoundError, match="a fetch that has not ended"):
        hugging_face_folder(tmp_path, cache=tmp_path, dtype="float32")
    assert main([*COMMAND[3:], str(tmp_path)]) == 0
    assert held(tmp_path) == model_files()
    assert int(hub_store.requests(SHARD)[-1].headers["range"].removeprefix("bytes=").rstrip("-")) > 5000


def test_two_fetchers_on_one_volume_fetch_once(hub_store: Store, tmp_path: Path) -> None:
    hub_store.faults[SHARD] = [Fault(slow=0.002)]
    fetchers = [Fetching(), Fetching()]
    threads = [threading.Thread(target=fetcher, args=(SOURCE, tmp_path)) for fetcher in fetchers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert held(tmp_path) == model_files()
    assert len(hub_store.requests(SHARD)) == 1
    assert sorted("already" in fetcher.said[-1] for fetcher in fetchers) == [False, True]


def test_a_marker_that_other_engines_leave_counts(
    hub_store: Store, fetching: Fetching, tmp_path: Path
) -> None:
    (tmp_path / volume.MARKER).touch()
    fetching(SOURCE, tmp_path)
    assert hub_store.seen == []


def test_folders_and_claims_are_copied(fetching: Fetching, tmp_path: Path) -> None:
    source = tmp_path / "mounted" / "models" / "llama"
    source.mkdir(parents=True)
    for name, content in MODEL.items():
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_bytes(content)
    fetching(f"file://{source}", tmp_path / "copy")
    assert held(tmp_path / "copy") == model_files()
    assert "their size alone is checked" in fetching.text
    claim = f"nfs={tmp_path / 'mounted'}"
    into = tmp_path / "other"
    assert main(["fetch", "--source", "pvc://nfs/models/llama", "--claim", claim, "--to", str(into)]) == 0
    assert held(into) == model_files()
    with pytest.raises(SettingsError, match=r"lies in .* already"):
        fetching(f"file://{source}", source)
    (source / volume.WORK).mkdir()
    with pytest.raises(ModelNotFoundError, match="itself a fetch that has not ended"):
        fetching(f"file://{source}", tmp_path / "third")


def test_bad_sources_end_with_their_status(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for source, exit_status, says in [
        ("gs://bucket/x", 64, "write a source as hf://"),
        ("hf://", 64, "write a hub source as"),
        ("hf://a/../b", 64, "may not hold '..'"),
        ("s3://UPPER/x", 64, "write a bucket source as"),
        ("file://relative", 64, "write a file source as"),
        ("pvc://nfs/x", 64, "mount it and say where: --claim nfs=/path"),
        ("file:///nowhere/at/all", 67, "neither a folder nor a file"),
    ]:
        assert main(["fetch", "--source", source, "--to", str(tmp_path / "to")]) == exit_status
        assert says in capsys.readouterr().err


def names(*paths: str) -> list[RemoteFile]:
    """Files of one byte."""
    return [RemoteFile(path, 1, "it") for path in paths]


@pytest.mark.parametrize(
    ("there", "gguf", "chosen"),
    [
        (
            ("model.safetensors", "consolidated.safetensors", "config.json"),
            None,
            ["config.json", "model.safetensors"],
        ),
        (("model.safetensors", "it.gguf", "a.jinja"), None, ["a.jinja", "model.safetensors"]),
        (("it.gguf", "config.json", "LICENSE", "README.md"), None, ["LICENSE", "it.gguf"]),
        (("q4.gguf", "q8.gguf", "model.safetensors"), "q8.gguf", ["q8.gguf"]),
        (
            ("weights.safetensors", "original/params.json", "tokenizer.model"),
            None,
            ["tokenizer.model", "weights.safetensors"],
        ),
    ],
)
def test_one_format_of_the_weights_is_taken(
    there: tuple[str, ...], gguf: str | None, chosen: list[str]
) -> None:
    selection = select(names(*there), gguf=gguf, where="it")
    assert [file.path for file in selection.chosen] == chosen
    assert {file.path for file, _ in selection.skipped} == set(there) - set(chosen)


@pytest.mark.parametrize(
    ("there", "kind", "says"),
    [
        ((), ModelNotFoundError, "holds no files"),
        (("README.md",), ModelNotFoundError, "neither .safetensors nor .gguf"),
        (("pytorch_model.bin",), UnsupportedModelError, "formats that are not read .pytorch_model.bin."),
        (("a.gguf", "b.gguf"), SettingsError, "name one: --gguf NAME"),
    ],
)
def test_sources_without_one_set_of_weights_are_refused(
    there: tuple[str, ...], kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=says):
        select(names(*there), gguf=None, where="it")


def test_sources_mean_what_the_operator_means() -> None:
    assert parse_source("hf://owner/repo", {}) == HubSource("owner/repo", "main")
    assert parse_source("hf://owner/repo@feature/x", {}) == HubSource("owner/repo", "feature/x")
    assert parse_source("pvc://claim", {"claim": Path("/mnt")}) == FolderSource(Path("/mnt"), "pvc://claim")


def test_waits_double_obey_and_end() -> None:
    patience = Patience(tries=4, first_wait=1, longest_wait=3, longest_asked=100)
    assert [patience.wait(failures, None, 0) for failures in (1, 2, 3, 4)] == [1, 2, 3, None]
    assert patience.wait(1, None, 1) == 0.5
    assert patience.wait(1, 30, 1) == 30
    assert patience.wait(1, 9999, 0) == 100
    assert retry_after("7", 0) == 7
    assert retry_after("Thu, 01 Jan 1970 00:00:10 GMT", 4) == 6
    assert retry_after("Thu, 01 Jan 1970 00:00:10 GMT", 99) == 0
    assert retry_after("soon", 0) is None


def test_a_file_system_without_locks_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("tierwright_worker.sources.volume.fcntl.flock", refuse)
    with pytest.raises(CacheVolumeError, match="offers no file locks"), volume.locked(tmp_path, ""):
        pass


@pytest.mark.parametrize("name", ["../evil.gguf", "/etc/evil.gguf", "a/../../evil.gguf", "it\0.gguf"])
def test_a_source_that_lists_names_outside_the_folder_is_refused(name: str) -> None:
    with pytest.raises(SourceUnreachableError, match="outside the folder"):
        select(names(name), gguf=None, where="it")
