"""Says whether an image must be built again: a digest over what a Dockerfile takes from its context. Reads files only."""

import hashlib
import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

_CONTINUED = re.compile(r"\\[ \t]*\n")
_BIND = re.compile(r"--mount=(\S*type=bind\S*)")
_NEVER = frozenset({".git", "__pycache__", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache"})


def copied_sources(dockerfile: str) -> list[str]:
    """The paths and patterns below the context that COPY, ADD and bind mounts of all stages read, sorted.

    What comes from another stage or image (`--from`, `from=`) or from an URL is no part of the context.
    """
    sources: set[str] = set()
    text = _CONTINUED.sub(" ", re.sub(r"^[ \t]*#.*\n", "", dockerfile, flags=re.MULTILINE))
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word.upper() in ("COPY", "ADD"):
            sources.update(_sources_of(rest.strip()))
        elif word.upper() == "RUN":
            for options in _BIND.findall(rest):
                fields = dict(option.partition("=")[::2] for option in options.split(","))
                if "from" not in fields:
                    sources.add(fields.get("source") or fields.get("src") or ".")
    return sorted(source for source in sources if "://" not in source)


def context_files(context: Path, sources: Iterable[str]) -> list[Path]:
    """All files below `context` that the sources name, sorted; those that git ignores are left out where git is used.

    Raises FileNotFoundError for a source that names nothing.
    """
    kept = _kept_by_git(context)
    found: set[Path] = set()
    for source in sources:
        pattern = source.removeprefix("./").strip("/")
        matches = list(context.glob(pattern)) if pattern not in ("", ".") else [context]
        if not matches:
            raise FileNotFoundError(f"the Dockerfile copies {source!r}, which is not in {context}")
        for match in matches:
            inside = [match] if match.is_file() else [file for file in match.rglob("*") if file.is_file()]
            found.update(file for file in inside if not _NEVER.intersection(file.relative_to(context).parts))
    return sorted(file for file in found if kept is None or file in kept)


def image_digest(
    context: Path, dockerfile: Path, target: str, build_args: Mapping[str, str], base: str
) -> str:
    """Twelve hex digits over copied files (path, mode, content), Dockerfile, target, arguments and base image."""
    text = dockerfile.read_text()
    digest = hashlib.sha256()
    ignore = context / ".dockerignore"
    head = [
        text,
        ignore.read_text() if ignore.exists() else "",
        target,
        base,
        repr(sorted(build_args.items())),
    ]
    for part in head:
        digest.update(part.encode() + b"\0")
    for file in context_files(context, copied_sources(text)):
        mode = file.stat().st_mode & 0o111
        digest.update(f"{file.relative_to(context)}\0{mode}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:12]


def _sources_of(rest: str) -> list[str]:
    if rest.startswith("["):
        words = [word.strip().strip('"') for word in rest.strip("[]").split(",")]
    else:
        words = shlex.split(rest)
    options = [word for word in words if word.startswith("--")]
    plain = [word for word in words if not word.startswith("--")]
    if any(option.startswith("--from=") for option in options):
        return []
    if plain and plain[0].startswith("["):
        return _sources_of(rest[rest.index("[") :])
    return plain[:-1]


def _kept_by_git(context: Path) -> set[Path] | None:
    argv = ["git", "-C", str(context), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    if listed.returncode or not listed.stdout:
        return None
    return {context / name for name in listed.stdout.split("\0") if name}
