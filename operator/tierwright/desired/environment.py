"""Decides the environment of the containers: ours first, the user's last and by name stronger."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tierwright.api.engine import EnvVar
from tierwright.engines.engine import CACHE_PATH

# Libraries ask for a user's name and home; the engine's user may have neither in the image, and the root file
# system is read-only.
_HOME: Final[Mapping[str, str]] = {
    "HOME": CACHE_PATH,
    "USER": "tierwright",
    "XDG_CACHE_HOME": f"{CACHE_PATH}/xdg",
    "XDG_CONFIG_HOME": f"{CACHE_PATH}/xdg-config",
    "HF_HOME": f"{CACHE_PATH}/huggingface",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
# The images of GPU engines ask the runtime for all GPUs of the node, even in a container that requests none.
_NO_GPU: Final[Mapping[str, str]] = {"NVIDIA_VISIBLE_DEVICES": "void"}


def server_env(runtime: Mapping[str, str], user: Iterable[EnvVar]) -> list[dict[str, Any]]:
    """The environment of the server, which needs no hub: its weights are on a volume.

    Args:
        runtime: what engine and accelerator need.
        user: the user's variables.
    """
    return _merge(_named({**_HOME, "HF_HUB_OFFLINE": "1", **runtime}), map(_from_user, user))


def fetch_env(token: Iterable[dict[str, Any]], user: Iterable[EnvVar]) -> list[dict[str, Any]]:
    """The environment of the init container that fetches weights."""
    return _merge([*_named({**_HOME, **_NO_GPU}), *token], map(_from_user, user))


def _named(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _merge(ours: Iterable[dict[str, Any]], theirs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    merged = {variable["name"]: variable for variable in ours}
    merged.update((variable["name"], variable) for variable in theirs)
    return list(merged.values())


def _from_user(variable: EnvVar) -> dict[str, Any]:
    """The variable on the wire, without an empty value, which the API server would drop."""
    return {name: value for name, value in variable.to_wire().items() if value != ""}
