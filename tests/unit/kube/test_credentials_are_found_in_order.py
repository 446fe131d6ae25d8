"""Whose credentials the operator uses when several lie about: what was named first, then the pod's own, then the user's."""

from pathlib import Path

import pytest
import yaml
from kubernetes.aio.client import Configuration

from tierwright.kube import credential_files, credentials
from tierwright.kube.credentials import CredentialsError, load_configuration, read_credentials


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / server
    path.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": f"http://{server}"}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return path


@pytest.fixture
def in_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service account's token is mounted, and nothing of a kubeconfig is set."""
    token = tmp_path / "token"
    token.write_text("t")
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT_TOKEN", token)
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.usefixtures("in_a_pod")
async def test_a_kubeconfig_that_was_named_comes_before_the_environment_and_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, "variable")))
    assert (await load_configuration(str(kubeconfig(tmp_path, "named")))).host == "http://named"
    assert (await load_configuration("")).host == "http://variable"


@pytest.mark.usefixtures("in_a_pod")
async def test_the_pods_own_account_is_used_when_nothing_was_named() -> None:
    with pytest.raises(CredentialsError, match="from the service account"):
        await load_configuration("")


async def test_a_kubeconfig_that_is_cut_off_anywhere_is_told_as_such(tmp_path: Path) -> None:
    """Who writes it may be half way through; a value that is cut off can be another type than the whole one."""
    whole = kubeconfig(tmp_path, "named")
    config = yaml.safe_load(whole.read_text())
    config["users"] = [{"name": "u", "user": {"token": "t"}}]
    text = yaml.safe_dump(config)
    path = tmp_path / "cut"
    reads = 0
    for end in range(len(text)):
        path.write_text(text[:end])
        try:
            reads += bool(await load_configuration(str(path)))
        except CredentialsError as error:
            assert str(path) in str(error)  # noqa: PT017 - most are refused, the last few can be read
    assert reads < len(text) / 10


async def test_a_kubeconfig_that_is_replaced_while_it_is_read_counts_as_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kubeconfig(tmp_path, "named")
    load = credentials.load_configuration

    async def load_and_replace(named: str) -> Configuration:
        configuration = await load(named)
        kubeconfig(tmp_path, "another").rename(path)
        return configuration

    monkeypatch.setattr(credentials, "load_configuration", load_and_replace)
    monkeypatch.setattr(credential_files, "LOOK_EVERY", 0.0)
    configuration, files = await read_credentials(str(path))
    assert configuration.host == "http://named"
    assert files.changed()
