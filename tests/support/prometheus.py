"""Runs a real Prometheus on loopback and asks it questions."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev import prometheus
from dev.cluster.machine.ports import free_port
from tests.support.waiting import eventually


def programs() -> prometheus.Programs:
    """Prometheus and promtool; the test is skipped, with the command that installs them, where there are none."""
    try:
        return prometheus.provide()
    except prometheus.PrometheusMissingError as error:
        pytest.skip(str(error))


@dataclass(frozen=True)
class Prometheus:
    """A running server on a port of loopback."""

    port: int
    log: Path

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, **parameters: str) -> Any:
        """The `data` of an answer of the HTTP API.

        Raises:
            AssertionError: the server refused, with its words.
        """
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}", timeout=20
            ) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {parameters}: {error.read().decode()}") from error

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query."""
        found = self.ask("query", query=expression)["result"]
        assert isinstance(found, list)
        return found


@contextmanager
def running_prometheus(
    folder: Path,
    scrapes: list[dict[str, Any]],
    *,
    rules: str | None = None,
    interval: str = "1s",
    port: int = 0,
) -> Iterator[Prometheus]:
    """A server that scrapes each interval; ``scrapes`` are its scrape_configs, ``rules`` the text of a rule file, ``port`` 0 any free one."""
    port = port or free_port()
    config: dict[str, Any] = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "scrape_configs": scrapes,
    }
    if rules is not None:
        (folder / "rules.yaml").write_text(rules, encoding="utf-8")
        config["rule_files"] = ["rules.yaml"]
    file, log = folder / "prometheus.yaml", folder / "prometheus.log"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [
        str(programs().server),
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder)
    server = Prometheus(port, log)

    def ready() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"Prometheus ended:\n{log.read_text(encoding='utf-8')[-3000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        eventually(ready, "Prometheus is ready")
        yield server
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=10)
