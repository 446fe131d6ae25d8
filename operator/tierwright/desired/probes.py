"""Decides the probes: a budget for the start, strict liveness after it, quick readiness."""

from typing import Any, Final

from tierwright.desired.budgets import Budgets

HTTP_PORT_NAME: Final = "http"


def probes(path: str, times: Budgets) -> dict[str, dict[str, Any]]:
    """The three probes of the engine's container, by field name.

    Liveness and readiness begin only when the startup probe has passed, so that a model that loads for long
    is never killed for it, and a dead engine never has to be waited for as long.
    """
    request = {"path": path, "port": HTTP_PORT_NAME}
    return {
        "startupProbe": {
            "httpGet": dict(request),
            "periodSeconds": times.startup_period,
            "timeoutSeconds": min(5, times.startup_period),
            "failureThreshold": times.startup_failures,
        },
        "livenessProbe": {
            "httpGet": dict(request),
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "readinessProbe": {
            "httpGet": dict(request),
            "periodSeconds": 5,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
    }
