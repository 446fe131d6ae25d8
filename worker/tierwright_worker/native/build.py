"""Compiles the kernels into one library beside their source: `python -m tierwright_worker.native.build [FOLDER]`.

One library runs on every machine of its architecture: what needs newer instructions is compiled apart and chosen at run
time. Needs a C++17 compiler (`CXX`, default g++) and jaxlib's headers; neither is needed where the library is used.
"""

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import jax.ffi

from tierwright_worker.native import source_digest

LIBRARY = "_kernels.so"
_COMMON = ("-std=c++17", "-O3", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-Wall")
# x86-64 beyond its baseline; the order of flags that select instructions does not matter.
_AVX2 = ("-DTW_AVX2", "-DTW_ISA=avx2", "-mavx2", "-mfma", "-mf16c")
_AVX512 = (
    "-DTW_AVX512", "-DTW_ISA=avx512", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni",
    "-mfma", "-mprefer-vector-width=512",
)  # fmt: skip
_GENERIC = ("-DTW_ISA=generic",)


def build(folder: Path) -> Path:
    """Compile and link; the library's path.

    Raises:
        subprocess.CalledProcessError: the compiler refused; its own message is on stderr.
        FileNotFoundError: there is no compiler.
    """
    source = Path(__file__).parent
    compiler = os.environ.get("CXX", "g++")
    variants: list[tuple[str, tuple[str, ...]]] = [("generic", _GENERIC)]
    if platform.machine() in ("x86_64", "AMD64"):
        variants += [("avx2", _AVX2), ("avx512", _AVX512)]
    with tempfile.TemporaryDirectory() as scratch:
        parts: list[tuple[str, str, tuple[str, ...]]] = [
            (f"kernels-{name}", "kernels.cpp", flags) for name, flags in variants
        ]
        parts += [
            ("pool", "pool.cpp", ()),
            ("pack", "pack.cpp", ()),
            ("ffi", "ffi.cpp", ("-isystem", jax.ffi.include_dir(), f'-DTW_SOURCE="{source_digest()}"')),
        ]
        objects = []
        for name, file, flags in parts:
            target = Path(scratch) / f"{name}.o"
            subprocess.run(  # the compiler is the builder's choice
                [compiler, *_COMMON, *flags, "-c", str(source / file), "-o", str(target)], check=True
            )
            objects.append(str(target))
        made = Path(scratch) / LIBRARY
        static = ("-static-libstdc++", "-static-libgcc", "-pthread")
        subprocess.run([compiler, "-shared", *objects, *static, "-o", str(made)], check=True)
        library = folder / LIBRARY
        work = folder / f".{LIBRARY}.{os.getpid()}"
        work.write_bytes(made.read_bytes())
        work.chmod(0o755)
        work.rename(library)
    return library


if __name__ == "__main__":
    sys.stdout.write(f"{build(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)}\n")
