"""Makes a kubeconfig whose API server nobody answers for."""

from pathlib import Path

import yaml

from dev.cluster.machine.ports import free_port


def unreachable_kubeconfig(folder: Path) -> Path:
    """A file in ``folder`` that names a free port of this machine."""
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{free_port()}"}}],
                "users": [{"name": "u", "user": {"token": "secret-token"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return path
