"""Names and pip settings of image builds."""

import os
from pathlib import Path

import pytest

from dev.cluster.images.image import _remove_old_archives, full_reference, pip_config


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("tierwright-operator:dev", "docker.io/library/tierwright-operator:dev"),
        ("team/operator:1", "docker.io/team/operator:1"),
        ("ghcr.io/team/operator:1", "ghcr.io/team/operator:1"),
        ("localhost/pause:1", "localhost/pause:1"),
        ("registry:5000/operator:1", "registry:5000/operator:1"),
    ],
)
def test_a_name_gets_the_registry_host_that_container_runtimes_assume(name: str, reference: str) -> None:
    assert full_reference(name) == reference


@pytest.mark.parametrize("name", ["operator", "operator:latest", "registry:5000/operator"])
def test_a_name_that_kubernetes_would_pull_is_refused_with_a_way_out(name: str) -> None:
    with pytest.raises(ValueError, match="tag other than latest"):
        full_reference(name)


def test_settings_of_the_hosts_pip_that_mean_the_same_in_a_build_are_taken() -> None:
    listed = (
        ":env:.default-timeout='180'\n"
        "global.index-url='https://mirror.example/simple'\n"
        "user.trusted-host='mirror.example'\n"
        ":env:.find-links='/opt/wheels'\n"
        "global.cert='/home/me/ca.pem'\n"
        "global.target='/somewhere'\n"
    )
    assert pip_config(listed, "/etc/ssl/certs/ca-certificates.crt") == (
        "[global]\n"
        "cert = /etc/ssl/certs/ca-certificates.crt\n"
        "index-url = https://mirror.example/simple\n"
        "timeout = 180\n"
        "trusted-host = mirror.example\n"
    )


def test_without_a_bundle_of_the_host_pip_uses_its_own_certificates() -> None:
    assert pip_config("", None) == "[global]\n"


def test_archive_that_another_working_tree_just_used_stays(tmp_path: Path) -> None:
    archives = [tmp_path / f"docker.io_x_dev-{number:012x}.tar" for number in range(4)]
    neighbour = tmp_path / "docker.io_x_dev-other_dev-000000000000.tar"
    for age, path in enumerate([*archives, neighbour]):
        path.write_text("image")
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    _remove_old_archives(tmp_path, "docker.io_x_dev")
    assert sorted(tmp_path.iterdir()) == sorted([*archives[:2], neighbour])
