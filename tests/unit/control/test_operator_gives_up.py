"""An operator that cannot reach its API server stays alive for a while, says what is wrong, and then ends."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from dev.cluster.machine.ports import free_port
from tests.unit.control.kubeconfigs import unreachable_kubeconfig
from tierwright.control.operator import GaveUpError, Operator, RestartPolicy
from tierwright.control.outcome import Done, Outcome
from tierwright.kube.client import HttpKubeClient
from tierwright.observe.store import TierKey
from tierwright.settings import Settings
from tierwright.telemetry.metrics import Metrics

ROOT = Path(__file__).resolve().parents[3]


async def settled(_: TierKey) -> Outcome:
    return Done()


async def test_it_ends_after_failures_in_a_row_and_says_the_last(tmp_path: Path) -> None:
    port = free_port()
    settings = Settings(
        kubeconfig=str(unreachable_kubeconfig(tmp_path)), http_host="127.0.0.1", http_port=port
    )
    metrics = Metrics(CollectorRegistry(), "1")
    client = await HttpKubeClient.connect(settings.kubeconfig, metrics=metrics)
    restarts = RestartPolicy(first_pause=0.05, longest_pause=0.2, most_failures=4)
    operator = Operator(settings, client, metrics, lambda *_: settled, restarts=restarts)
    run = asyncio.create_task(operator.run(asyncio.Event()))
    try:
        async with aiohttp.ClientSession() as session:
            for _ in range(100):
                try:
                    async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                        assert answer.status == 503
                    async with session.get(f"http://127.0.0.1:{port}/livez") as answer:
                        assert answer.status == 200, "a restart would not help"
                    break
                except aiohttp.ClientConnectionError:
                    await asyncio.sleep(0.01)
        with pytest.raises(GaveUpError, match=r"5 failures in a row.*inferencetiers"):
            await asyncio.wait_for(run, 20)
    finally:
        run.cancel()
        await client.close()
    assert metrics.registry.get_sample_value("tierwright_watch_restarts_total") == 4


def run_cli(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tierwright", *arguments],
        env={"PYTHONPATH": str(ROOT / "operator"), "PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_credentials_the_last_line_says_so(tmp_path: Path) -> None:
    ended = run_cli("operator", HOME=str(tmp_path), TIERWRIGHT_LOG_FORMAT="json")
    assert ended.returncode == 2
    last = json.loads(ended.stderr.splitlines()[-1])
    assert last["message"].startswith("the operator ends: no credentials for the API server")


def test_a_bad_setting_is_named_before_anything_starts() -> None:
    ended = run_cli("operator", "--resync-seconds", "never")
    assert ended.returncode == 2
    assert "--resync-seconds='never'" in ended.stderr


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = run_cli(
            "operator",
            TIERWRIGHT_KUBECONFIG=str(unreachable_kubeconfig(tmp_path)),
            TIERWRIGHT_HTTP_HOST="127.0.0.1",
            TIERWRIGHT_HTTP_PORT=str(taken.getsockname()[1]),
        )
    assert ended.returncode == 1
    assert "address already in use" in ended.stderr.splitlines()[-1]


def test_a_numeric_user_without_name_or_home_can_run_it(tmp_path: Path) -> None:
    """The Kubernetes client asks for the home directory when it is imported, and would raise."""
    nobody = (
        "import pwd, sys\n"
        "def unknown(uid): raise KeyError(f'getpwuid(): uid not found: {uid}')\n"
        "pwd.getpwuid = unknown\n"
        "from tierwright.cli import main\n"
        f"sys.exit(main(['operator', '--kubeconfig', {str(tmp_path / 'absent')!r}]))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", nobody],
        env={"PYTHONPATH": str(ROOT / "operator")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert "no credentials for the API server" in ended.stderr
