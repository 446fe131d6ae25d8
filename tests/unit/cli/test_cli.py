"""The command line: each command loads only what it needs, and wrong use is said on stderr."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import tierwright
from tierwright.cli import main
from tierwright.settings import Settings, environment_name, flag_name

ROOT = Path(__file__).resolve().parents[3]


def test_the_crd_is_printed_as_it_is_committed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crd"]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    committed = yaml.safe_load(
        (ROOT / "crds" / "tierwright.dev_inferencetiers.yaml").read_text(encoding="utf-8")
    )
    assert printed == committed


@pytest.mark.parametrize(
    "arguments", [["crd"], ["render", "-f", "docs/samples/cpu-vllm.yaml"], ["--version"]]
)
def test_commands_without_a_cluster_load_no_library_for_one(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from tierwright.cli import main\n"
        "try: status = main(sys.argv[1:])\n"
        "except SystemExit as end: status = end.code\n"
        "loaded = {'kopf', 'kubernetes', 'aiohttp', 'prometheus_client'} & set(sys.modules)\n"
        "sys.exit(f'loaded {loaded}' if loaded else status)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "operator")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_the_help_of_the_operator_names_every_setting_with_its_variable(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["operator", "--help"])
    words = capsys.readouterr().out.replace("\n", " ")
    for name in vars(Settings()):
        assert flag_name(name) in words
        assert environment_name(name) in words


@pytest.mark.parametrize("arguments", [[], ["serve"], ["render"], ["operator", "--no-such-flag"]])
def test_wrong_use_ends_with_2_and_says_how_to_use_it(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: tierwright" in capsys.readouterr().err


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.strip() == f"tierwright {tierwright.__version__}"
