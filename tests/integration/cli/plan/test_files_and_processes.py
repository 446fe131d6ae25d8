"""``tierwright plan``: pipes, processes, pictures, and memory that does not grow with the trace."""

import gzip
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.plan_command import ROOT, command, environment, plan, planned
from tests.support.waiting import eventually
from tierwright.cli import main
from tierwright.cli.plan.plot import FORMATS

ROWS = int(os.environ.get("TIERWRIGHT_PLAN_ROWS", "100000"))
"""Requests of the large trace; 10000000 takes some minutes."""


def test_plain_packed_and_piped_traces_give_the_same(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    packed = trace.with_suffix(".bin")
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    settings = ("-f", file, "--static", "2", "--as-written")
    plain = planned(capsys, "--trace", trace, *settings)
    unpacked = planned(capsys, "--trace", packed, *settings)
    assert unpacked["tiers"] == plain["tiers"]
    piped = subprocess.run(
        command("--json", "--trace", "-", *settings),
        input=packed.read_bytes(),
        capture_output=True,
        env=environment(),
        timeout=120,
        check=True,
    )
    assert json.loads(piped.stdout)["tiers"] == plain["tiers"]


def test_replays_in_several_processes_give_the_same(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    settings = ("--json", "--trace", trace, "-f", file, "--static", "1-3", "--as-written")
    done = subprocess.run(
        command(*settings, "--jobs", 2), capture_output=True, env=environment(), timeout=120, check=True
    )
    assert json.loads(done.stdout) == planned(capsys, *settings)


@pytest.mark.parametrize(("jobs", "interrupts"), [(1, 1), (2, 1), (2, 2)])
def test_a_search_that_is_interrupted_ends_at_once_and_leaves_nothing(
    file: Path, tmp_path: Path, jobs: int, interrupts: int
) -> None:
    trace = tmp_path / "trace.csv"
    lines = (f"{place / 50},1000,100\n" for place in range(200_000))
    trace.write_text("arrival_s,input_tokens,output_tokens\n" + "".join(lines), encoding="utf-8")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = command("--trace", trace, "-f", file, "--static", "1-60", "--jobs", jobs)
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment(), "TMPDIR": str(scratch)},
        start_new_session=True,
    ) as running:
        eventually(
            lambda: any(each.stat().st_size == 200_000 * 16 for each in scratch.glob("*/part-0")),
            "the trace is read",
        )
        for _ in range(interrupts):
            os.killpg(running.pid, signal.SIGINT)
        out, said = running.communicate(timeout=60)
    assert (running.returncode, out) == (1, "")
    assert said.splitlines()[-1] == "error: stopped"
    assert "Traceback" not in said
    assert list(scratch.iterdir()) == []


def test_a_process_that_is_killed_ends_the_search_with_a_reason(file: Path, trace: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from tierwright.cli.plan import search\n"
        "from tierwright.cli import main\n"
        "if __name__ == '__main__':\n"
        "    sys.exit(main())\n"
        "else:\n"
        "    search.simulate = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    script = trace.parent / "script.py"
    script.write_text(program, encoding="utf-8")
    words = ["plan", "--trace", str(trace), "-f", str(file), "--jobs", "2"]
    done = subprocess.run(
        [sys.executable, str(script), *words],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("try --jobs 1")


@pytest.mark.parametrize("ending", FORMATS)
def test_the_plot_is_a_picture_and_the_same_each_time(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path, ending: str
) -> None:
    pictures = []
    for name in ("one", "two"):
        path = file.parent / f"{name}{ending}"
        words = ("--trace", trace, "-f", file, "--static", "2-4", "--as-written", "--plot", path)
        assert main(plan(*words)) == 0
        pictures.append(path.read_bytes())
    assert pictures[0] == pictures[1]
    assert pictures[0].startswith(b"\x89PNG" if ending == ".png" else b"<?xml")
    if ending == ".svg":
        assert b"serving/llama-standard" in pictures[0]
        assert b"as written" in pictures[0]
    assert "cheapest that keeps the promise" in capsys.readouterr().out


def test_a_plot_without_matplotlib_says_how_to_get_it_and_nothing_else_needs_it(
    trace: Path, file: Path, tmp_path: Path
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "matplotlib.py").write_text("raise ImportError('not here')\n", encoding="utf-8")
    env = {**environment(), "PYTHONPATH": f"{hidden}:{ROOT / 'operator'}"}
    words = ("--trace", trace, "-f", file, "--static", "2", "--as-written", "--jobs", "1")
    for more, status in (((), 0), (("--json",), 0), (("--plot", tmp_path / "plot.svg"), 2)):
        done = subprocess.run(
            command(*words, *more), capture_output=True, text=True, env=env, timeout=120, check=False
        )
        assert done.returncode == status, done.stderr
        assert ("pip install matplotlib" in done.stderr) == (status == 2)
        assert ("as written" in done.stdout) == (status == 0)


def test_a_plot_that_cannot_be_written_is_an_error(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    folder = file.parent / "folder.svg"
    folder.mkdir()
    words = ("--trace", trace, "-f", file, "--static", "2", "--as-written", "--plot", folder)
    assert main(plan(*words)) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_memory_does_not_grow_with_the_trace(file: Path, tmp_path: Path) -> None:
    trace = tmp_path / "large.csv"
    with trace.open("w", encoding="utf-8") as out:
        out.write("arrival_s,input_tokens,output_tokens\n")
        for first in range(0, ROWS, 10_000):
            last = min(ROWS, first + 10_000)
            out.writelines(
                f"{place / 20},{300 + place % 700},{place % 50 + 1}\n" for place in range(first, last)
            )
    most = 150 * 2**20
    # Not ru_maxrss: that begins with the memory of the process that forked.
    program = (
        "import re, sys\n"
        "from tierwright.cli import main\n"
        "status = main(sys.argv[1:])\n"
        "kib = re.search(r'VmHWM:\\s*(\\d+) kB', open('/proc/self/status').read())[1]\n"
        "print(int(kib) * 1024, file=sys.stderr)\n"
        "sys.exit(status)\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            program,
            *plan("--json", "--trace", trace, "-f", file, "--static", "4", "--as-written"),
        ],
        capture_output=True,
        text=True,
        env=environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (3 * most, 3 * most)),
        timeout=max(120, ROWS / 5000),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["trace"]["requests"] == ROWS
    assert int(done.stderr.split()[-1]) < most
