"""``tierwright plan``: what it prints, what it refuses, and that its memory does not grow with the trace."""

import gzip
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import eventually
from tierwright.cli import main
from tierwright.cli_plan_plot import FORMATS

ROOT = Path(__file__).resolve().parents[2]
ROWS = int(os.environ.get("TIERWRIGHT_PLAN_ROWS", "100000"))
"""Requests of the large trace; 10000000 takes some minutes."""
TIER = """\
apiVersion: tierwright.dev/v1alpha1
kind: InferenceTier
metadata: {{name: llama-{speed}, namespace: serving}}
spec:
  model: {{name: meta/llama-3.1-8b, source: "hf://unsloth/Meta-Llama-3.1-8B-Instruct@main"}}
  speed: {speed}
  engine: {{type: vllm, tensorParallel: 2{engine}}}
  hardware: {{accelerator: nvidia, count: 2}}
  scaling:
    mode: Auto
    minReplicas: 1
    maxReplicas: 8
    objectives: {{{objectives}}}
    coldStart: 60s
    cost: {{perReplicaHour: "2.5"}}
"""
OBJECTIVES = "timeToFirstToken: 1s, timePerOutputToken: 60ms"


def tier(speed: str = "standard", objectives: str = OBJECTIVES, engine: str = "") -> str:
    return TIER.format(speed=speed, objectives=objectives, engine=engine)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tier.yaml"
    path.write_text(tier(), encoding="utf-8")
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Twenty minutes: two requests a second, ten of them in the middle third."""
    lines = ["arrival_s,input_tokens,output_tokens,speed"]
    at = 0.0
    while at < 1200:
        lines.append(f"{at:.3f},1000,100,{'fast' if len(lines) % 5 == 0 else 'standard'}")
        at += 0.1 if 400 <= at < 800 else 0.5
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def plan(*words: object) -> list[str]:
    return ["plan", "--jobs", "1", *map(str, words)]


def errors(capsys: pytest.CaptureFixture[str], *words: object, status: int = 1) -> list[str]:
    """What is said of a plan that is refused; nothing is printed beside it."""
    assert main(plan(*words)) == status
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.splitlines()


def planned(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    """The plan as JSON."""
    assert main(plan("--json", *words)) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def test_the_cheapest_setting_that_keeps_the_promise_is_found(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    content = planned(capsys, "--trace", trace, "-f", file)
    (told,) = content["tiers"]
    kept = [each for each in told["settings"] if each["keepsPromise"]]
    best = min(each["replicaHours"] for each in kept)
    assert [each["setting"] for each in kept if each["replicaHours"] == best] == [told["cheapest"]]
    assert any("replicas" in each["fields"] for each in kept)
    for each in told["settings"]:
        assert each["keepsPromise"] == (each["attainment"] >= 0.95)
        assert each["attainment"] <= min(each["timeToFirstTokenMet"], each["timePerOutputTokenMet"]) + 1e-9
        assert each["requests"] == told["demand"]["requests"] == content["trace"]["requests"]
        assert each["acceleratorHours"] == pytest.approx(2 * each["replicaHours"], rel=1e-3)
        assert each["cost"] == pytest.approx(2.5 * each["replicaHours"], abs=0.01)
    assert told["stepTime"]["fixed"] == 11.47e-3
    assert any("was not measured" in words for words in told["assumed"])
    assert sum(part["requestsPerSecond"] * 60 for part in told["overTime"]["as written"]) == pytest.approx(
        told["demand"]["requests"], rel=1e-3
    )


def test_the_table_holds_what_the_json_holds(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    words = ("--trace", trace, "-f", file, "--static", "1,3", "--as-written")
    (told,) = planned(capsys, *words)["tiers"]
    assert main(plan(*words)) == 0
    table = capsys.readouterr().out
    assert [each["setting"] for each in told["settings"]] == ["static 1", "static 3", "as written"]
    for each in told["settings"]:
        (line,) = (line for line in table.splitlines() if line[2:].startswith(each["setting"] + " "))
        assert f"{each['attainment']:.2%}" in line
        assert f"{each['cost']:,.2f}" in line
    assert table.startswith("A model, no measurement")
    assert "assumed: the step time" in table
    assert all(words in table for words in told["remarks"])


def test_requests_go_to_the_tier_that_their_speed_names(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path, tmp_path: Path
) -> None:
    fast = tmp_path / "fast.yaml"
    fast.write_text(tier("fast"), encoding="utf-8")
    words = ("--trace", trace, "-f", file, "-f", fast, "--static", "2", "--as-written")
    by_column = planned(capsys, *words, "--speed-column", "speed")
    requests = {each["speed"]: each["demand"]["requests"] for each in by_column["tiers"]}
    total = by_column["trace"]["requests"]
    assert requests == {"standard": total - total // 5, "fast": total // 5}
    by_share = planned(capsys, *words, "--share", "llama-fast=1", "--share", "standard=3")
    shares = {each["speed"]: each["demand"]["requests"] / total for each in by_share["tiers"]}
    assert shares == pytest.approx({"standard": 0.75, "fast": 0.25}, abs=0.02)
    assert by_share == planned(capsys, *words, "--share", "llama-fast=1", "--share", "standard=3")


def test_requests_for_a_speed_that_no_tier_has_are_told(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    words = ("--trace", trace, "-f", file, "--static", "2", "--as-written", "--speed-column", "speed")
    assert main(plan(*words)) == 0
    assert "requests ask for 'fast', which no tier has, and were left out" in capsys.readouterr().err


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


def command(*words: object) -> list[str]:
    program = "import sys\nfrom tierwright.cli import main\nif __name__ == '__main__': sys.exit(main())"
    return [sys.executable, "-c", program, "plan", *map(str, words)]


def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "operator")}


def test_replays_in_several_processes_give_the_same(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    settings = ("--json", "--trace", trace, "-f", file, "--static", "1-3", "--as-written")
    done = subprocess.run(
        command(*settings, "--jobs", 2), capture_output=True, env=environment(), timeout=120, check=True
    )
    assert json.loads(done.stdout) == planned(capsys, *settings)


def test_objectives_below_the_floor_are_told_and_not_chased(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    impossible = tmp_path / "impossible.yaml"
    impossible.write_text(tier(objectives="timeToFirstToken: 20ms"), encoding="utf-8")
    (told,) = planned(capsys, "--trace", trace, "-f", impossible)["tiers"]
    assert told["demand"]["unattainableShare"] == 1.0
    assert told["cheapest"] is None
    assert sum("replicas" in each["fields"] for each in told["settings"]) == 1
    assert told["remarks"][0].startswith("beyond reach: 100.00% of the requests")
    assert "no number of replicas keeps 95%" in told["remarks"][1]


def test_the_step_time_is_given_by_flag_name_or_file(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path, tmp_path: Path
) -> None:
    words = ("--trace", trace, "-f", file, "--static", "2", "--as-written")
    own = "fixed=10ms,batch=20us,context=0.04us,prefill=3e4ns"
    for given in (["--step-time", own], ["--step-time", f"llama-standard:{own}"]):
        (told,) = planned(capsys, *words, *given)["tiers"]
        assert told["stepTime"] == {
            "source": "as given",
            "fixed": pytest.approx(0.01),
            "batch": pytest.approx(2e-5),
            "context": pytest.approx(4e-8),
            "prefill": pytest.approx(3e-5),
        }
        assert not any("step time" in each for each in told["assumed"])
    measured = tmp_path / "step-times.yaml"
    measured.write_text("serving/llama-standard: llama-3.1-8b/h100\n", encoding="utf-8")
    (told,) = planned(capsys, *words, "--step-times", measured)["tiers"]
    assert told["stepTime"]["fixed"] == 6.36e-3


def test_what_the_model_leaves_out_is_said(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    path = tmp_path / "tier.yaml"
    path.write_text(
        tier(engine=", batching: {maxSequences: 32}, speculation: {method: NGram, tokens: 4}"),
        encoding="utf-8",
    )
    (told,) = planned(capsys, "--trace", trace, "-f", path, "--static", "2", "--as-written")["tiers"]
    assert [each.partition(":")[0] for each in told["assumed"]] == [
        "the step time",
        "engine.batching.maxBatchedTokens",
        "engine.speculation",
        "replicas when the trace begins",
    ]


def test_a_tier_on_cpus_is_counted_in_replicas_and_runs_what_its_engine_takes(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    path = tmp_path / "cpu.yaml"
    text = tier(objectives="timePerOutputToken: 5s").replace("nvidia, count: 2", "cpu")
    path.write_text(
        text.replace("type: vllm, tensorParallel: 2", "type: jax, image: registry.example.com/worker:1"),
        encoding="utf-8",
    )
    words = ("--trace", trace, "-f", path, "--static", "8", "--as-written")
    (told,) = planned(capsys, *words)["tiers"]
    assert {"engine.batching.maxBatchedTokens: 256", "engine.batching.maxSequences: 8"} <= set(
        told["assumed"]
    )
    assert told["settings"][0]["acceleratorHours"] == told["settings"][0]["replicaHours"]
    assert main(plan(*words)) == 0
    table = capsys.readouterr().out
    assert "replica-hours" in table
    assert "accelerator-hours" not in table


def test_the_fleet_begins_as_large_as_said(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    words = ("--trace", trace, "-f", file, "--static", "2", "--as-written")
    for start, replicas in ((5, 5.0), (0, 1.0), (100, 8.0)):
        (told,) = planned(capsys, *words, "--start", start)["tiers"]
        assert told["overTime"]["as written"][0]["replicas"] == pytest.approx(replicas, abs=2.9)
        assert not any("--start" in each for each in told["assumed"])


def test_the_beginning_can_be_left_uncounted(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    words = ("--trace", trace, "-f", file, "--static", "2", "--as-written")
    (all_of_it,) = planned(capsys, *words)["tiers"]
    (warm,) = planned(capsys, *words, "--warm-up", "10m")["tiers"]
    assert warm["settings"][0]["requests"] < all_of_it["settings"][0]["requests"]
    assert warm["settings"][0]["replicaHours"] == pytest.approx(
        all_of_it["settings"][0]["replicaHours"] - 2 * 600 / 3600, abs=0.01
    )


def test_everything_that_is_wrong_is_said_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "bad.csv"
    trace.write_text(
        "arrival_s,input_tokens,output_tokens\n0,10,10\n-1,10,10\n2,nan,10\n3,10\n", encoding="utf-8"
    )
    bare = tmp_path / "bare.yaml"
    bare.write_text(tier().replace(f"    objectives: {{{OBJECTIVES}}}\n", ""), encoding="utf-8")
    said = errors(capsys, "--trace", trace, "-f", bare, "-f", tmp_path / "none.yaml", "--step-time", "fast")
    assert all(line.startswith("error: ") for line in said)
    for words in (
        "none.yaml: cannot be read",
        "bare.yaml, document 1: spec.scaling.objectives",
        "--step-time fast: is no step time",
        "bad.csv, line 3: arrival_s is '-1'",
        "bad.csv, line 4: input_tokens is 'nan'",
        "bad.csv, line 5: output_tokens is missing",
    ):
        assert sum(words in line for line in said) == 1, words


def test_a_file_full_of_bad_lines_is_not_told_line_by_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, file: Path
) -> None:
    trace = tmp_path / "bad.csv"
    trace.write_text("arrival_s,input_tokens,output_tokens\n" + "x,1,1\n" * 5000, encoding="utf-8")
    said = errors(capsys, "--trace", trace, "-f", file)
    assert len(said) == 21
    assert said[-1].endswith("4,980 more lines are wrong")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "line 1: the file is empty"),
        (b"arrival_s,input_tokens,output_tokens\n", "holds no request"),
        (b"when,in,out\n1,2,3\n", "--arrival-column"),
        (b"\xff\xfe\x00\x01\n", "is no UTF-8 text"),
        (
            gzip.compress(b"arrival_s,input_tokens,output_tokens\n" + b"1,2,3\n" * 999)[:-20],
            "gzip file is damaged",
        ),
        (b"\x1f\x8bnonsense", "gzip file is damaged"),
        (
            b"arrival,input_tokens,output_tokens\n0,1,1\n1700000000,1,1\n",
            "say the unit of its times by --time-unit",
        ),
    ],
    ids=["empty", "no-request", "columns", "binary", "cut", "no-gzip", "unit"],
)
def test_a_trace_that_is_none_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, file: Path, content: bytes, words: str
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_bytes(content)
    assert words in "\n".join(errors(capsys, "--trace", trace, "-f", file))


def test_a_trace_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    assert errors(capsys, "--trace", file.parent / "none.csv", "-f", file) == [
        f"error: {file.parent / 'none.csv'}: cannot be read: No such file or directory"
    ]


def test_a_warm_up_that_leaves_nothing_to_count_is_refused(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    (words,) = errors(capsys, "--trace", trace, "-f", file, "--warm-up", "1h")
    assert "leaves no request of serving/llama-standard to count" in words


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_search_that_is_interrupted_ends_at_once_and_leaves_nothing(
    file: Path, tmp_path: Path, jobs: int
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
        os.killpg(running.pid, signal.SIGINT)
        out, said = running.communicate(timeout=60)
    assert (running.returncode, out) == (1, "")
    assert said.splitlines()[-1] == "error: stopped"
    assert "Traceback" not in said
    assert list(scratch.iterdir()) == []


def test_a_process_that_is_killed_ends_the_search_with_a_reason(file: Path, trace: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from tierwright import cli_plan_search\n"
        "from tierwright.cli import main\n"
        "if __name__ == '__main__':\n"
        "    sys.exit(main())\n"
        "else:\n"
        "    cli_plan_search.simulate = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
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


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "nothing says which requests go to which"),
        (["--share", "fast=1"], "serving/llama-standard has none"),
        (["--share", "fast=1", "--share", "slow=1"], "no tier is called 'slow'"),
        (["--share", "fast=0", "--share", "standard=1"], "a weight above zero"),
        (["--share", "fast=1", "--share", "llama-fast=2"], "serving/llama-fast has a share already"),
        (["--share", "=1"], "no tier is called ''"),
        (["--speed-column", "speed", "--step-time", "slow:llama-3.1-8b/h100"], "there is no tier slow"),
    ],
)
def test_shares_of_several_tiers_must_add_up_to_sense(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path, flags: Sequence[str], words: str
) -> None:
    both = tmp_path / "both.yaml"
    both.write_text(tier() + "---\n" + tier("fast"), encoding="utf-8")
    assert words in "\n".join(errors(capsys, "--trace", trace, "-f", both, *flags))


def test_a_tier_that_stands_twice_or_gets_nothing_is_refused(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    twice = tmp_path / "twice.yaml"
    twice.write_text(tier() + "---\n" + tier(), encoding="utf-8")
    words = errors(capsys, "--trace", trace, "-f", twice, "--speed-column", "speed")
    assert any("serving/llama-standard: stands twice" in line for line in words)
    idle = tmp_path / "idle.yaml"
    idle.write_text(tier() + "---\n" + tier("batch"), encoding="utf-8")
    words = errors(capsys, "--trace", trace, "-f", idle, "--speed-column", "speed")
    assert "no request goes to serving/llama-batch (speed batch); they ask for 'fast'" in words[-1]


def test_files_without_tiers_are_refused_and_other_objects_left_out(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("apiVersion: v1\nkind: ConfigMap\n---\n{not: [yaml\n", encoding="utf-8")
    words = "\n".join(errors(capsys, "--trace", trace, "-f", other))
    assert "ConfigMap is no InferenceTier and was left out" in words
    assert "cannot be read as YAML" in words
    other.write_text("apiVersion: v1\nkind: ConfigMap\n", encoding="utf-8")
    assert "holds no InferenceTier" in "\n".join(errors(capsys, "--trace", trace, "-f", other))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("- a list\n", "a mapping of tier names"),
        ("llama-standard: fixed=0ms,batch=1us,context=1ns,prefill=1us\n", "fixed must be above zero"),
        ("llama-standard: fixed=1ms,batch=1us,context=1ns\n", "is no step time"),
        ("llama-standard: fixed=1ms,batch=1,context=1ns,prefill=1us\n", "is no step time"),
        ("{", "cannot be read"),
    ],
)
def test_step_times_that_are_none_are_refused(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path, content: str, words: str
) -> None:
    times = file.parent / "times.yaml"
    times.write_text(content, encoding="utf-8")
    assert words in "\n".join(errors(capsys, "--trace", trace, "-f", file, "--step-times", times))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--static", "0"], "--static: '0' is no list of sizes"),
        (["--static", "5-3"], "--static: '5-3'"),
        (["--static", ","], "--static: ','"),
        (["--jobs", "0"], "--jobs: at least 1"),
        (["--start", "-1"], "--start: a number of replicas"),
        (["--warm-up", "soon"], "--warm-up: 'soon' is not a duration"),
        (["--plot", "plot.pdf"], "must end in .svg or .png"),
        (["--plot", "none/plot.svg"], "there is no folder none"),
        (["-f", "-", "--trace", "-"], "only one can be - for stdin"),
        (["--share", "fast=1", "--speed-column", "speed"], "leave one out"),
    ],
)
def test_wrong_use_ends_before_anything_is_read(
    capsys: pytest.CaptureFixture[str], flags: Sequence[str], words: str
) -> None:
    assert words in "\n".join(errors(capsys, "--trace", "none.csv", "-f", "none.yaml", *flags, status=2))


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
    program = (
        "import resource, sys\n"
        "from tierwright.cli import main\n"
        "status = main(sys.argv[1:])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, file=sys.stderr)\n"
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
