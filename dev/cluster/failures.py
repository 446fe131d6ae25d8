"""Lists the errors whose message alone tells what is wrong and what to do; any other is a bug, with its traceback."""

from typing import Final

from dev.cluster.images import buildah
from dev.cluster.machine import processes
from dev.cluster.network import commands as network
from dev.cluster.nodes import containerd
from dev.cluster.nodes import real_nodes as nodes
from dev.cluster.programs import build, packages, source

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
