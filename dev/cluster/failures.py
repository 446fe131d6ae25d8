"""Lists the errors whose message alone tells a person what is wrong and what to do; any other is a bug, with its traceback."""

from typing import Final

from dev.cluster import build, buildah, containerd, network, nodes, packages, processes, source

FAILURES: Final = (
    processes.ComponentError,
    source.SourceError,
    build.BuildError,
    buildah.BuildError,
    containerd.ContainerdError,
    network.NetworkError,
    nodes.NodesError,
    packages.PackageError,
)
