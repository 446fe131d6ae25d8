"""Wraps kubectl and helm so that their caches and settings lie in the cluster's run folder and go with it."""

import shlex
from pathlib import Path

_TEMPLATE = """#!/bin/sh
# {name} for the local cluster; what it would cache below the home folder goes with the cluster.
export KUBECACHEDIR={run_dir}/tool-cache/kube
export HELM_CACHE_HOME={run_dir}/tool-cache/helm
export HELM_CONFIG_HOME={run_dir}/tool-cache/helm-config
export HELM_DATA_HOME={run_dir}/tool-cache/helm-data
exec {program} "$@"
"""


def folder(run_dir: Path) -> Path:
    """The folder of the wrappers, meant for PATH."""
    return run_dir / "tools"


def wrap(run_dir: Path, name: str, program: Path) -> Path:
    """Make the wrapper `name` of `program`, or make it anew, and return it."""
    wrapper = folder(run_dir) / name
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    text = _TEMPLATE.format(name=name, run_dir=shlex.quote(str(run_dir)), program=shlex.quote(str(program)))
    if not wrapper.exists() or wrapper.read_text() != text:
        partial = wrapper.with_suffix(".partial")
        partial.write_text(text)
        partial.chmod(0o755)
        partial.replace(wrapper)
    return wrapper
