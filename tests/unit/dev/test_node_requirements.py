"""What a machine lacks for real nodes is said in sentences with the one command that helps."""

import os
import platform
from pathlib import Path

import pytest

from dev.cluster.machine.system_path import system_path
from dev.cluster.nodes import requirements as node_requirements
from dev.cluster.nodes.requirements import apt_command, install_missing_programs, missing_requirements


def test_only_packages_of_programs_that_are_lacking_are_installed_each_once() -> None:
    # Debian's containerd would take Docker's away where that is there already.
    assert apt_command(["nft", "/usr/lib/cni/bridge", "/usr/lib/cni/loopback"]) == (
        "apt-get install -y --no-install-recommends containernetworking-plugins nftables"
    )


def test_another_system_than_linux_is_told_that_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert missing_requirements() == ["real nodes need Linux (this is Darwin)"]


@pytest.mark.skipif(platform.system() != "Linux", reason="real nodes are for Linux")
def test_a_machine_without_the_programs_names_them_with_one_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(node_requirements, "system_path", lambda: str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    root, lacking = missing_requirements()
    assert root.startswith("real nodes need root (or sudo)")
    assert lacking.startswith("not found: containerd, ctr, runc, buildah, unshare, debootstrap, nft, ip")
    assert lacking.count("apt-get install") == 1


def test_nothing_is_installed_where_apt_is_forbidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(node_requirements, "system_path", lambda: str(tmp_path))
    monkeypatch.setenv("TIERWRIGHT_NO_APT", "1")
    install_missing_programs(tmp_path / "apt.log")
    assert not (tmp_path / "apt.log").exists()


def test_nothing_is_installed_where_real_nodes_could_not_run_anyway(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(node_requirements, "system_path", lambda: str(tmp_path))
    monkeypatch.setattr(node_requirements, "_missing_of_kernel", lambda: ["no writable cgroups"])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv("TIERWRIGHT_NO_APT", raising=False)
    install_missing_programs(tmp_path / "apt.log")
    assert not (tmp_path / "apt.log").exists()


def test_system_programs_are_found_with_a_users_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/home/me/bin")
    assert system_path() == "/home/me/bin:/usr/local/sbin:/usr/sbin:/sbin"
