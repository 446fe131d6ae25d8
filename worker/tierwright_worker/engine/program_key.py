"""Decides what a stored program's name depends on beside the program itself: all that machine code is made for and made by."""

import hashlib
import os
from dataclasses import astuple, dataclass
from pathlib import Path

import jax
import jaxlib.version

import tierwright_worker
from tierwright_worker import models, native
from tierwright_worker.models.exact import COMPILER_OPTIONS


@dataclass(frozen=True, slots=True)
class CompileEnvironment:
    """What the same program compiles differently in. Every field is part of the key."""

    worker: str
    jax: str
    jaxlib: str
    platform: str
    """Of JAX's device, such as cpu."""
    platform_version: str
    """What its runtime says of itself: the versions of CUDA, or of Neuron's compiler."""
    device: str
    """The kind of device, such as NVIDIA H100."""
    cpu_features: str
    """Code compiled with an instruction that another machine lacks would crash there."""
    cores: int
    xla_flags: str
    neuron_flags: str
    compiler_options: str
    kernels: str
    """The version of our own kernels."""
    source: str
    """A digest of the files that define what is computed, so that an edit is never answered with an old program."""

    def key(self) -> str:
        """A digest of it all."""
        return hashlib.sha256(repr(astuple(self)).encode()).hexdigest()


def compile_environment() -> CompileEnvironment:
    """That of this process."""
    device = jax.devices()[0]
    return CompileEnvironment(
        worker=tierwright_worker.__version__,
        jax=jax.__version__,
        jaxlib=jaxlib.version.__version__,
        platform=device.platform,
        platform_version=device.client.platform_version,
        device=device.device_kind,
        cpu_features=_cpu_features(Path("/proc/cpuinfo")),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        xla_flags=os.environ.get("XLA_FLAGS", ""),
        neuron_flags=os.environ.get("NEURON_CC_FLAGS", ""),
        compiler_options=repr(sorted(COMPILER_OPTIONS.get(device.platform, {}).items())),
        kernels=native.version(),
        source=_source_digest(),
    )


def _cpu_features(cpuinfo: Path) -> str:
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    return next((line for line in lines if line.startswith(("flags", "Features"))), "unknown")


def _source_digest() -> str:
    packages = (models, native)
    files = sorted(file for package in packages for file in Path(str(package.__file__)).parent.glob("*.py"))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()
