"""The command line: ``tierwright operator``, ``tierwright crd``, ``tierwright render`` and ``tierwright plan``.

Each command imports only what it needs: all but ``operator`` work without kopf, a cluster or credentials.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

import tierwright
from tierwright import settings
from tierwright.cli.plan import flags as plan_flags


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 failed, 2 used wrongly."""
    parser = argparse.ArgumentParser(
        prog="tierwright", description="Serves one LLM at several speeds on Kubernetes."
    )
    parser.add_argument("--version", action="version", version=f"tierwright {tierwright.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    operator = commands.add_parser(
        "operator",
        help="run the operator until it is told to stop",
        description=f"Run the operator. Each setting is taken from {', then '.join(settings.PRECEDENCE)}.",
    )
    for name, help_ in settings.describe().items():
        operator.add_argument(
            settings.flag_name(name),
            dest=name,
            help=f"{help_} [{settings.environment_name(name)}]".replace("%", "%%"),
        )
    operator.set_defaults(run=_operator)

    crd = commands.add_parser("crd", help="print the CustomResourceDefinition of InferenceTier")
    crd.set_defaults(run=_crd)

    render = commands.add_parser(
        "render",
        help="print the objects that tiers become, without a cluster; exit 1 with all errors at once",
    )
    render.add_argument(
        "-f",
        "--filename",
        action="append",
        required=True,
        help="file with InferenceTiers, - for stdin; may be repeated",
    )
    render.add_argument(
        "-n",
        "--namespace",
        help="namespace of the tiers that name none; one that names another is an error (default: default)",
    )
    repository = "worker_repository"
    render.add_argument(
        settings.flag_name(repository),
        help=f"the operator's setting of this name: {settings.describe()[repository]}"
        f" [{settings.environment_name(repository)}]".replace("%", "%%"),
    )
    render.set_defaults(run=_render)

    plan_flags.add_command(commands)

    arguments = parser.parse_args(argv)
    status: int = arguments.run(arguments)
    return status


def _operator(arguments: argparse.Namespace) -> int:
    try:
        resolved = settings.resolve(vars(arguments), os.environ)
    except settings.SettingsError as error:
        print(f"tierwright: {error}", file=sys.stderr)
        return 2
    # The Kubernetes client asks for the home directory when it is imported, and a numeric user may have none.
    os.environ.setdefault("HOME", "/")
    from tierwright.control.operator import run_operator
    from tierwright.telemetry import logs

    logs.configure(resolved.log_level, resolved.log_format)
    return asyncio.run(run_operator(resolved))


def _crd(_: argparse.Namespace) -> int:
    from tierwright.api.crd import crd_yaml

    sys.stdout.write(crd_yaml())
    return 0


def _render(arguments: argparse.Namespace) -> int:
    from tierwright.cli.render import run
    from tierwright.desired.bundle import BundleContext

    # Of the operator's settings this one alone shows in children; the others may be whatever they are.
    variable = settings.environment_name("worker_repository")
    try:
        resolved = settings.resolve(
            {"worker_repository": arguments.worker_repository}, {variable: os.environ.get(variable, "")}
        )
    except settings.SettingsError as error:
        print(f"tierwright: {error}", file=sys.stderr)
        return 2
    context = BundleContext(worker_repository=resolved.worker_repository)
    return run(arguments.filename, context, arguments.namespace)
