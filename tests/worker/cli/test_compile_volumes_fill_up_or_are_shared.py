"""Compile volumes that two engines fill at once, that are full, or read-only: each engine serves, and says what it could not keep."""

import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.worker.cli.processes import free_port, opened, process_of, until_ready
from tests.worker.tiny_folder import write_tiny_folder
from tierwright_worker.engine.programs import ProgramStore

# The fewest programs.
SHAPES = ("--max-model-len", 128, "--max-num-seqs", 1, "--prefill-buckets", 64, "--prompt-cache-page", 0)
own_mounts = pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0,
    reason="mounting a small volume needs a mount namespace of one's own",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model to serve."""
    return write_tiny_folder(tmp_path_factory.mktemp("volumes") / "model")


def command(name: str, folder: Path, volume: Path, *more: object) -> tuple[object, ...]:
    """The worker's command on a compile volume."""
    caches = ("--weights-cache", folder, "--compile-cache", volume)
    return ("-m", "tierwright_worker", name, "--model", folder, *caches, *SHAPES, *more)


def serve(folder: Path, volume: Path, port: int) -> tuple[object, ...]:
    """A server."""
    return command("serve", folder, volume, "--host", "127.0.0.1", "--port", port)


def mounted(volume: Path, options: str) -> tuple[str, ...]:
    """A command that runs another one with a volume of its own."""
    script = f'mount -t tmpfs -o {options} none "{volume}" && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", script, "sh")


def answer(port: int) -> str:
    """What a server says."""
    asked = {"prompt": "abc", "max_tokens": 12, "temperature": 0, "ignore_eos": True}
    with opened(port, "/v1/completions", asked) as response:
        return str(json.load(response)["choices"][0]["text"])


def ended(process: "subprocess.Popen[str]") -> str:
    """What a server said, once it has ended as it was told to."""
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    return said


def origins(said: str) -> dict[str, int]:
    """How many programs were compiled and loaded."""
    found = re.search(r"warm in [\d.]+ s: programs {(.*?)}", said)
    assert found is not None, said
    return {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", found[1])}


def test_two_engines_fill_one_volume_at_once_and_the_next_one_loads_all(folder: Path, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    ports = [free_port(), free_port()]
    with (
        process_of(*serve(folder, volume, ports[0])) as one,
        process_of(*serve(folder, volume, ports[1])) as other,
    ):
        until_ready(one, ports[0])
        until_ready(other, ports[1])
        texts = {answer(port) for port in ports}
        assert len(texts) == 1
        counts = [origins(ended(process)) for process in (one, other)]
    programs = sorted(volume.rglob("*.xla"))
    assert [sum(each.values()) for each in counts] == [len(programs)] * 2
    assert len(programs) >= 2
    assert [file for file in volume.rglob("*") if file.is_file() and file not in programs] == []
    assert all(ProgramStore._content(program) is not None for program in programs)
    port = free_port()
    with process_of(*serve(folder, volume, port)) as third:
        until_ready(third, port)
        assert {answer(port)} == texts
        assert origins(ended(third)) == {"loaded": len(programs)}


@own_mounts
@pytest.mark.parametrize(
    ("options", "says"), [("size=64k", "No space left on device"), ("ro", "Read-only file system")]
)
def test_a_server_on_a_volume_that_takes_nothing_serves_and_says_so(
    folder: Path, tmp_path: Path, options: str, says: str
) -> None:
    port = free_port()
    with process_of(*serve(folder, tmp_path, port), before=mounted(tmp_path, options)) as process:
        until_ready(process, port)
        assert answer(port)
        said = ended(process)
    assert set(origins(said)) == {"compiled"}
    stored = [line for line in said.splitlines() if "cannot be stored" in line]
    assert len(stored) >= 2
    assert all(says in line and "the next start compiles it again" in line for line in stored)


@own_mounts
def test_compiling_ahead_onto_a_full_volume_ends_with_the_status_of_volumes(
    folder: Path, tmp_path: Path
) -> None:
    with process_of(*command("compile", folder, tmp_path), before=mounted(tmp_path, "size=64k")) as process:
        _, said = process.communicate(timeout=300)
    assert process.returncode == 73, said
    assert said.splitlines()[-1].endswith("does not take compiled programs; is it full, or read-only?")


def test_an_engine_that_starts_while_another_compiles_loads_what_is_there_already(
    folder: Path, tmp_path: Path
) -> None:
    volume, port = tmp_path / "volume", free_port()
    with process_of(*command("compile", folder, volume)) as first:
        deadline = time.monotonic() + 200
        while not list(volume.rglob("*.xla")):
            assert time.monotonic() < deadline
            assert first.poll() in (None, 0)
            time.sleep(0.01)
        with process_of(*serve(folder, volume, port)) as second:
            until_ready(second, port)
            assert origins(ended(second))["loaded"] >= 1
        assert first.wait(200) == 0
