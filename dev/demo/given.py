"""The demo on a cluster that KUBECONFIG names: installs, and takes away what it brought."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from dev.cluster import given
from dev.cluster.programs import tools
from dev.demo.console import Console
from dev.demo.install import install, uninstall
from dev.demo.kubectl import CommandError, Tools

CRD: Final = "inferencetiers.tierwright.dev"


def anywhere(manifest: str) -> str:
    """A demo tier that any node can take: in no pool, with caches that live and die with its pods.

    It asks for half a core: both tiers, the operator and what every cluster runs fit on one node of two cores. CPU is not
    limited, and the two speeds are measured one after the other.
    """
    tier: dict[str, Any] = yaml.safe_load(manifest)
    hardware = tier["spec"]["hardware"]
    tier["spec"]["hardware"] = {"accelerator": "cpu", "resources": {**hardware["resources"], "cpu": "500m"}}
    tier["spec"].pop("cache", None)
    return yaml.safe_dump(tier)


@contextmanager
def installed(
    console: Console, namespace: str, system: str, images: Sequence[str], keep: bool
) -> Iterator[Tools]:
    """Tierwright on the given cluster while the context lasts, and an empty namespace for the tiers.

    Raises:
        CommandError: no cluster answers, or Tierwright is installed there already.
    """
    with ExitStack() as stack:
        cluster = _reach(console, stack, namespace, system, images)
        yield from _with_install(console, cluster, namespace, system, images[0], keep)


def _reach(console: Console, stack: ExitStack, namespace: str, system: str, images: Sequence[str]) -> Tools:
    with console.step("Look at the cluster that KUBECONFIG names"):
        found = given.find(os.environ, console.say)
        if found is None:
            raise CommandError("KUBECONFIG names no cluster that answers")
        console.say(f"context {found.context}, Kubernetes {found.version}")
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tierwright-demo-"))
        kubeconfig = Path(folder) / "kubeconfig.yaml"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(found.flat, encoding="utf-8")
        cluster = Tools(found.kubectl, tools.helm(), kubeconfig, namespace)
        if CRD in cluster.kubectl("get", "crd", "-o", "name"):
            raise CommandError(
                f"the CRD {CRD} is there already: this cluster has Tierwright, and the demo leaves that alone"
            )
        for name in (namespace, system):
            if f"namespace/{name}" in cluster.kubectl("get", "namespaces", "-o", "name").split():
                raise CommandError(
                    f"the namespace {name} is there already, and the demo removes what it made"
                )
        console.say("Its nodes must have these images, see docs/how-to/develop-on-kind.md:")
        for image in images:
            console.say(f"  {image}")
        console.say("The tiers run in no particular pool here, and compile anew at each start.")
        return cluster


def _with_install(
    console: Console, cluster: Tools, namespace: str, system: str, image: str, keep: bool
) -> Iterator[Tools]:
    try:
        with console.step("Install Tierwright with Helm, as a user would"):
            install(cluster, system, image)
            cluster.kubectl("create", "namespace", namespace)
        yield cluster
    finally:
        if keep:
            console.say(f"left running: namespaces {namespace} and {system}, CRD {CRD}")
            console.say(f"kubectl -n {namespace} get itier -o wide")
            console.say(f"kubectl -n {system} logs deployment/tierwright-operator -f")
            console.say("When you are done:")
            console.say(f"kubectl delete namespace {namespace} && helm uninstall tierwright -n {system} &&")
            console.say(f"kubectl delete crd {CRD} && kubectl delete namespace {system}")
        else:
            with console.step("Take away what the demo brought"):
                take_away(cluster, namespace, system)


def take_away(cluster: Tools, namespace: str, system: str) -> None:
    """Remove both namespaces, the release and the CRD, as far as they are there.

    Raises:
        CommandError: something did not go.
    """
    cluster.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--timeout=120s")
    uninstall(cluster, system)
    cluster.kubectl("delete", "crd", CRD, "--ignore-not-found", "--timeout=60s")
    cluster.kubectl("delete", "namespace", system, "--ignore-not-found", "--timeout=120s")
