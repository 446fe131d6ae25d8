"""The Neuron packages are never taken from the public index, whatever stands there; pip itself runs, against two indexes on loopback."""

import base64
import csv
import hashlib
import io
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "worker" / "install_flavour.sh"
NEURON = ("jax-neuronx", "libneuronxla", "neuronx-cc")


def write_wheel(index: Path, name: str, version: str, *requires: str) -> str:
    """A package without code in an index's folder; its SHA-256."""
    plain = name.replace("-", "_")
    info = f"{plain}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.writerow([path, f"sha256={digest}", len(text)])
    rows.writerow([f"{info}/RECORD", "", ""])
    folder = index / name
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{plain}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record.getvalue()}.items():
            archive.writestr(path, text)
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


class _Index(SimpleHTTPRequestHandler):
    asked: list[str]

    def log_message(self, *_: Any) -> None:
        self.asked.append(self.path)


@contextmanager
def index_of(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """A package index on loopback, and the paths that were asked of it."""
    asked: list[str] = []
    handler = type("Index", (_Index,), {"asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def install(flavour: str, python: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script as the Dockerfile does; `python3` is the Python of these tests, which has pip."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", str(SCRIPT), flavour, python],
        env={**kept, "PATH": path, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def environment(tmp_path: Path) -> str:
    """The Python of an empty virtual environment without pip."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    return str(tmp_path / "venv" / "bin" / "python")


def installed(python: str) -> dict[str, str]:
    """Versions by name."""
    code = "from importlib.metadata import distributions as d\nfor i in d(): print(i.name, i.version)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return dict(line.split() for line in done.stdout.splitlines())


@pytest.mark.parametrize("told_by", ["environment", "file"])
def test_a_newer_package_on_the_public_index_is_never_taken(
    environment: str, tmp_path: Path, told_by: str
) -> None:
    public, aws = tmp_path / "public", tmp_path / "aws"
    digest = write_wheel(public, "base", "1.0")
    write_wheel(public, "helper", "2.0")
    for name in NEURON:
        write_wheel(public, name, "0.0.1")
        write_wheel(public, name, "99.0")
        write_wheel(aws, name, "3.1", "helper>=2", *(["libneuronxla>=3"] if name == "jax-neuronx" else []))
    lock = tmp_path / "lock.txt"
    lock.write_text(f"base==1.0 --hash=sha256:{digest}\n")
    with index_of(public) as (public_url, asked), index_of(aws) as (aws_url, _):
        settings = tmp_path / "pip.conf"
        settings.write_text(f"[global]\nindex-url = {public_url}\nextra-index-url = {public_url}\n")
        told = {
            "environment": {"PIP_INDEX_URL": public_url, "PIP_EXTRA_INDEX_URL": public_url},
            "file": {"PIP_CONFIG_FILE": str(settings), "PIP_INDEX_URL": "", "PIP_EXTRA_INDEX_URL": ""},
        }[told_by]
        done = install("neuron", environment, NEURON_INDEX=aws_url, LOCK_FILE=str(lock), **told)
    assert done.returncode == 0, done.stderr
    assert installed(environment) == {"base": "1.0", "helper": "2.0", **dict.fromkeys(NEURON, "3.1")}
    assert [path for path in asked if path.endswith(".whl") and "neuron" in path] == []


def test_without_aws_index_nothing_is_installed(environment: str) -> None:
    done = install("neuron", environment)
    assert done.returncode == 64
    assert "NEURON_INDEX" in done.stderr
    assert installed(environment) == {}


def test_a_flavour_that_is_not_built_is_named(environment: str) -> None:
    done = install("rocm", environment)
    assert done.returncode == 64
    assert "cpu, cuda and neuron are built" in done.stderr
