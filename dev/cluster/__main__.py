"""The command line of dev.cluster: `python -m dev.cluster up | down | status | env | load-image | build | tools | ...`."""

import argparse
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from dev.cluster import cluster, given, paths, prune
from dev.cluster.api import Api, ApiError
from dev.cluster.failures import FAILURES
from dev.cluster.images import buildah
from dev.cluster.images import image as images
from dev.cluster.images.base_image import ensure_base_images
from dev.cluster.machine import processes
from dev.cluster.network import slot
from dev.cluster.network.commands import NetworkError
from dev.cluster.nodes import requirements as node_requirements
from dev.cluster.nodes.readiness import is_ready
from dev.cluster.programs import build, source, tools

_DEFAULT_NAME = "dev"
_EXPECTED = (*FAILURES, LookupError, ValueError, OSError)


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 when it did what it says, 1 when not, 2 for a wrong command line."""
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return command(arguments)
    except BrokenPipeError:  # `... | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except _EXPECTED as error:
        if isinstance(error, LookupError | OSError | ValueError) and os.environ.get("TIERWRIGHT_DEBUG"):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _up(arguments: argparse.Namespace) -> int:
    running = cluster.up(arguments.name, arguments.nodes)
    _describe(running)
    print(f'use it:  eval "$({_command("env", arguments.name)})"')
    return 0


def _down(arguments: argparse.Namespace) -> int:
    if not cluster.down(arguments.name):
        print(f"no cluster {arguments.name} to stop")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    daemons = cluster.daemons(arguments.name)
    for daemon in daemons:
        print(
            f"{daemon.name:<28} {'running' if processes.alive(daemon) else 'DEAD':<8} {daemon.pid:>8}  {daemon.log}"
        )
    try:
        _describe(cluster.attach(arguments.name))
    except LookupError as error:
        print(error)
        return 1
    return 0


def _env(arguments: argparse.Namespace) -> int:
    environ = cluster.attach(arguments.name).environ()
    for variable in ("KUBECONFIG", "PATH"):
        print(f"export {variable}={shlex.quote(environ[variable])}")
    return 0


def _load_image(arguments: argparse.Namespace) -> int:
    image = _image(arguments)
    try:
        running = cluster.attach(arguments.name)
    except LookupError:
        if not given.is_given(os.environ):
            raise
        running = None
    if running is None or running.plane is None:
        print("the cluster that KUBECONFIG names was not started here; one of these loads the image into it:")
        print("\n".join(f"  {command}" for command in images.load_commands(image)))
        return 0
    images.load_image(image, running.run_dir)
    print(f"{image.reference} is in every real node")
    return 0


def _image(arguments: argparse.Namespace) -> images.Image:
    reference = images.full_reference(arguments.image)
    if arguments.archive:
        if not arguments.archive.is_file():
            raise FileNotFoundError(f"{arguments.archive}: no such file")
        return images.Image(reference, arguments.archive.absolute())
    stem = buildah.file_stem(reference)
    built = sorted(
        (paths.cache_dir() / "images").glob(f"{stem}-*.tar"), key=lambda file: file.stat().st_mtime_ns
    )
    if not built:
        raise LookupError(
            f"image {reference} was not built here; build it first (dev.cluster.images.image.build_image), or give "
            f"--archive FILE as written by: docker save {arguments.image}"
        )
    return images.Image(reference, built[-1])


def _build(_: argparse.Namespace) -> int:
    for module in (build.KUBERNETES, build.KWOK):
        print(f"{module.name} {build.pinned_version(module)}: {build.built(module)}")
    return 0


def _tools(_: argparse.Namespace) -> int:
    version = build.pinned_version(build.KUBERNETES)
    kubectl, helm = tools.kubectl(version, build.cached(build.KUBERNETES)), tools.helm()
    print(f"kubectl {tools.kubectl_version(kubectl)}: {kubectl}\nhelm {tools.helm_version(helm)}: {helm}")
    return 0


def _prepare(arguments: argparse.Namespace) -> int:
    missing = node_requirements.provide()
    programs = source.programs()
    print(f"Kubernetes {programs.version} from {programs.origin}")
    print(f"kwok: {source.kwok()}")
    _tools(arguments)
    if not missing:
        ensure_base_images()
    prune.prune()
    return 0


def _prune(_: argparse.Namespace) -> int:
    prune.prune()
    return 0


def _can_run_nodes(_: argparse.Namespace) -> int:
    missing = node_requirements.missing_requirements()
    for sentence in missing:
        print(f"real nodes: {sentence}")
    if missing:
        return 1
    try:
        slot.require_free()
    except NetworkError as error:
        print(f"real nodes: possible here, but not now: {error}", flush=True)
    return 0


def _describe(running: cluster.Cluster) -> None:
    nodes = f"nodes: {running.nodes}" if running.plane else "given by KUBECONFIG"
    print(f"cluster {running.name}: Kubernetes {running.version}, {nodes}")
    print(f"kubeconfig: {running.kubeconfig}")
    try:
        api: Api = running.api()
        items = api.request("GET", "/api/v1/nodes").get("items", [])
    except (ApiError, OSError, ValueError) as error:
        print(f"nodes: not known ({error})")
        return
    for item in items[:20]:
        print(f"  {item['metadata']['name']:<28} {'Ready' if is_ready(item) else 'NotReady'}")
    if len(items) > 20:
        print(f"  and {len(items) - 20} more")
    if running.nodes == "kwok":
        print(
            "pods are played here, nothing runs in them: start the operator beside (`.venv/bin/tierwright operator`),"
        )
        print("or take real nodes (`make cluster-up NODES=real`)")


def _name(text: str) -> str:
    try:
        return paths.check_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _command(word: str, name: str) -> str:
    return f".venv/bin/python -m dev.cluster {word}" + ("" if name == _DEFAULT_NAME else f" --name {name}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dev.cluster",
        description="A real Kubernetes on this machine, for development and tests.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        word: str, run: Callable[[argparse.Namespace], int], words: str, *, named: bool = True
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(word, help=words, description=words)
        command.set_defaults(command=run)
        if named:
            command.add_argument(
                "--name", default=_DEFAULT_NAME, type=_name, help="which cluster; default: dev"
            )
        return command

    up = add("up", _up, "start a cluster, or use the one that KUBECONFIG names")
    up.add_argument(
        "--nodes",
        choices=("kwok", "real", "none"),
        default="kwok",
        help="kwok: pods are played, nothing runs in them (default); real: kubelet and containerd, needs root on Linux; or none",
    )
    add("down", _down, "stop a cluster and remove all it left, also after a crash")
    add("status", _status, "what runs, and where; exit status 1 when the cluster is not whole")
    add("env", _env, 'settings for a shell: eval "$(python -m dev.cluster env)"')
    load = add("load-image", _load_image, "load an image built by dev.cluster into every real node")
    load.add_argument("image", metavar="NAME:TAG")
    load.add_argument(
        "--archive", type=Path, help="a file written by `docker save`; default: what was built here"
    )
    add("build", _build, "build Kubernetes' programs and kwok into the cache", named=False)
    add("tools", _tools, "find kubectl and helm, or download them into the cache", named=False)
    add("prepare", _prepare, "build and download all that tests and demo need", named=False)
    add("prune", _prune, "remove from the cache what no present build uses", named=False)
    add(
        "can-run-nodes",
        _can_run_nodes,
        "say what real nodes lack here (exit status 1 if anything), and who holds the one place for them",
        named=False,
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
