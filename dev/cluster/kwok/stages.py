"""Renders the Stage files of kwok: fills in the jq expressions that several stages share, and joins the files."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent / "stages"
BEHAVIOUR = "kwok.tierwright.dev/behaviour"
"""Annotation or label of a pod: image-pull-failure, crash-loop, out-of-memory, never-ready or never-initialized."""

_PREFIX = "kwok.tierwright.dev"
_TARGET = (
    f'((.metadata.annotations["{_PREFIX}/container"] // .spec.containers[0].name) as $t'
    " | .status.containerStatuses[]? | select(.name == $t))"
)
_BEHAVIOUR = f'(.metadata.annotations["{BEHAVIOUR}"] // .metadata.labels["{BEHAVIOUR}"] // "")'
_SHARED = {
    "stays": "(.metadata.deletionTimestamp == null)",
    "behaviour": _BEHAVIOUR,
    "target": _TARGET,
    # With kwok.tierwright.dev/crashes: "2" the third run succeeds.
    "crashes_now": (
        f'(({_BEHAVIOUR} | . == "crash-loop" or . == "out-of-memory") and '
        f'((.metadata.annotations["{_PREFIX}/crashes"] // "1e9" | tonumber) > ([{_TARGET} | .restartCount][0] // 0)))'
    ),
    "init_fails": f'({_BEHAVIOUR} == "never-initialized")',
    "start_time": "(.status.startTime | fromdate)",
    "target_started": f"([{_TARGET} | .state.running.startedAt | select(. != null) | fromdate][0])",
    "node_fails": f'(.metadata.annotations["{_PREFIX}/not-ready"] == "true")',
    "node_ready": '([.status.conditions[]? | select(.type == "Ready") | .status == "True"] | any)',
}


def render(folder: Path = FOLDER) -> str:
    """All Stage files of `folder` as one YAML stream.

    `@name@` stands for the shared expression `name`. Raises ValueError for a name that is not there.
    """
    return "---\n".join(_fill(file.read_text(), file.name) for file in sorted(folder.glob("*.yaml")))


def _fill(text: str, file: str) -> str:
    def expression(match: re.Match[str]) -> str:
        try:
            return _SHARED[match[1]]
        except KeyError:
            raise ValueError(f"{file}: no shared expression is called {match[1]!r}") from None

    return re.sub(r"@([a-z_]+)@", expression, text)
