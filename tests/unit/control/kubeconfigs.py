"""Makes kubeconfigs for servers on this machine, among them one that nobody answers for."""

from pathlib import Path

import yaml

from dev.cluster.machine.ports import free_port


def kubeconfig_for(port: int, folder: Path) -> Path:
    """A file in ``folder`` that names this port of this machine."""
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "u", "user": {"token": "secret-token"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return path


def unreachable_kubeconfig(folder: Path) -> Path:
    """A file in ``folder`` that names a free port of this machine."""
    return kubeconfig_for(free_port(), folder)
