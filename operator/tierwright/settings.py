"""The settings of the operator process, and which source wins: command line, then environment, then the default."""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, TypeVar

ENV_PREFIX: Final = "TIERWRIGHT_"
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_REPOSITORY: Final = re.compile(r"[a-z0-9][a-z0-9._-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*")
_URL: Final = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")
_N = TypeVar("_N", int, float)
PRECEDENCE: Final = ("the command line", "the environment", "the default")


class SettingsError(ValueError):
    """A setting has a value that cannot be used; the message names the setting, its source and what fits."""


def _number(text: str, kind: Callable[[str], _N], wanted: str) -> _N:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"write {wanted}") from None


def _seconds(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = _number(text, float, "a number of seconds without a unit, such as 30")
        if not low <= value <= high:
            raise ValueError(f"must be between {low:g} and {high:g} seconds")
        return value

    return parse


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = _number(text, int, "a whole number")
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return parse


def _choice(*allowed: str, upper: bool = False) -> Callable[[str], str]:
    def parse(text: str) -> str:
        value = text.upper() if upper else text.lower()
        if value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return value

    return parse


def _names(text: str) -> tuple[str, ...]:
    names = sorted({part.strip() for part in text.split(",") if part.strip()})
    for name in names:
        if not _NAMESPACE.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a namespace")
    return tuple(names)


def _repository(text: str) -> str:
    if not _REPOSITORY.fullmatch(text):
        raise ValueError(f"{text!r} is no repository; write it without tag and digest")
    return text


def _url(text: str) -> str:
    if not _URL.fullmatch(text):
        raise ValueError(f"{text!r} is no address; write http:// or https:// with host and port")
    return text


def _setting(parse: Callable[[str], Any], default: Any, help_: str) -> Any:
    return field(default=default, metadata={"parse": parse, "help": help_})


@dataclass(frozen=True)
class Settings:
    """All settings; each is the flag ``--like-this`` and the variable ``TIERWRIGHT_LIKE_THIS``."""

    namespaces: tuple[str, ...] = _setting(
        _names, (), "namespaces to serve, separated by commas; none means all of them"
    )
    kubeconfig: str = _setting(
        str, "", "kubeconfig file; default: KUBECONFIG, else the pod's service account, else ~/.kube/config"
    )
    http_host: str = _setting(str, "", "address of /livez, /readyz and /metrics; default: all addresses")
    http_port: int = _setting(_integer(1, 65535), 8080, "port of /livez, /readyz and /metrics")
    log_level: str = _setting(
        _choice("DEBUG", "INFO", "WARNING", "ERROR", upper=True), "INFO", "DEBUG, INFO, WARNING or ERROR"
    )
    log_format: str = _setting(_choice("text", "json"), "text", "text or json")
    resync_seconds: float = _setting(
        _seconds(1, 86400), 300.0, "time between two full comparisons with the API server"
    )
    request_timeout_seconds: float = _setting(
        _seconds(1, 9), 5.0, "longest time of one request to the API server, before it counts as failed"
    )
    window_seconds: float = _setting(
        _seconds(0.01, 5), 0.2, "how long the changes of a tier are collected before one reconcile"
    )
    parallel_reconciles: int = _setting(_integer(1, 256), 16, "tiers reconciled at the same time")
    autoscale_seconds: float = _setting(
        _seconds(1, 60), 10.0, "time between two looks at the pods' metrics and at each tier's replicas"
    )
    autoscale_state_seconds: float = _setting(
        _seconds(1, 86400),
        300.0,
        "time between two writes of what the autoscaler has learned of a tier; a tier without requests has none",
    )
    scrape_timeout_seconds: float = _setting(
        _seconds(0.1, 30), 3.0, "longest time of reading one pod's metrics page"
    )
    parallel_scrapes: int = _setting(_integer(1, 1024), 64, "pods whose metrics are read at the same time")
    scrape_ca_file: str = _setting(
        str,
        "",
        "certificate authority of the pods; with it their metrics are read by TLS, whatever name they show",
    )
    scrape_token_file: str = _setting(
        str, "", "file of the bearer token that pods ask for their metrics page"
    )
    pool_size: str = _setting(
        _choice("pods", "nodes"),
        "pods",
        "what tells that a node pool is full: pods that wait for a node, or nodes as well (pools of a fixed size;"
        " needs the right to list nodes)",
    )
    prometheus_url: str = _setting(
        _url,
        "",
        "root of a Prometheus server that is read in place of the pods, such as http://prometheus.monitoring.svc:9090",
    )
    prometheus_matchers: str = _setting(
        str,
        "",
        'further label matchers for a server that holds several clusters, such as cluster="east"',
    )
    prometheus_ca_file: str = _setting(str, "", "certificate authority of the Prometheus server")
    prometheus_token_file: str = _setting(
        str, "", "file of the bearer token that the Prometheus server asks for"
    )
    worker_repository: str = _setting(
        _repository,
        "localhost/tierwright/worker",
        "repository of the images of the JAX worker, of which engine.type jax takes VERSION-cpu, -cuda or -neuron",
    )
    reconcile_timeout_seconds: float = _setting(_seconds(5, 3600), 120.0, "longest time of one reconcile")


def environment_name(name: str) -> str:
    """The environment variable of a setting."""
    return ENV_PREFIX + name.upper()


def flag_name(name: str) -> str:
    """The command line flag of a setting."""
    return "--" + name.replace("_", "-")


def describe() -> dict[str, str]:
    """Name and help of each setting, the default included."""
    texts = {}
    for each in fields(Settings):
        default = each.default if each.default is not MISSING else ""
        shown = f" (default {default})" if default not in ("", ()) else ""
        texts[each.name] = f"{each.metadata['help']}{shown}"
    return texts


def resolve(flags: Mapping[str, str | None], environment: Mapping[str, str]) -> Settings:
    """Settings from flags (None: not given) and environment, in the order of PRECEDENCE.

    An empty environment variable counts as not set. Raises SettingsError that lists every bad setting at once.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    for each in fields(Settings):
        given = [
            (flag_name(each.name), flags.get(each.name)),
            (environment_name(each.name), environment.get(environment_name(each.name)) or None),
        ]
        source, text = next(((source, text) for source, text in given if text is not None), ("", None))
        if text is None:
            continue
        try:
            values[each.name] = each.metadata["parse"](text)
        except ValueError as error:
            problems.append(f"{source}={text!r}: {error}")
    if problems:
        raise SettingsError("; ".join(problems))
    return Settings(**values)
