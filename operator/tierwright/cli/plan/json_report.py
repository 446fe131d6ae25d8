"""What ``tierwright plan`` found, as JSON for programs."""

import json
from collections.abc import Sequence
from math import inf
from typing import Any

from tierwright.cli.plan.table_report import (
    MODEL,
    Found,
    accelerator_hours,
    cost,
    duration,
    label,
    remarks,
    settings_in_order,
    shared_pools,
)
from tierwright.cli.plan.trace import Trace
from tierwright.planning.case import Scaled, Setting, as_written
from tierwright.planning.search import keeps


def document(trace: Trace, name: str, found: Sequence[Found]) -> str:
    """Everything for programs; times in seconds, shares from 0 to 1."""
    content = {
        "model": MODEL,
        "trace": {"name": name, "requests": trace.requests, "seconds": round(trace.seconds, 3)},
        "tiers": [_as_json(each) for each in found],
        "sharedPools": [
            {
                "nodePool": pool.selector,
                "device": pool.device,
                "tiers": [each.case.name for each in sharing],
                "mostAccelerators": most.accelerators,
                "at": most.at,
                "sumOfEachMost": most.added,
            }
            for pool, (sharing, most) in shared_pools(found).items()
        ],
    }
    return json.dumps(content, indent=2) + "\n"


def _as_json(found: Found) -> dict[str, Any]:
    case, demand, engine = found.case, found.part.demand, found.case.engine
    return {
        "tier": case.name,
        "speed": case.speed,
        "objectives": {
            "timeToFirstToken": None if case.first_token == inf else case.first_token,
            "timePerOutputToken": None if case.per_token == inf else case.per_token,
            "attainment": case.promise,
        },
        "stepTime": {
            "source": found.planned.step_time,
            "fixed": engine.fixed,
            "batch": engine.batch,
            "context": engine.context,
            "prefill": engine.prefill,
        },
        "assumed": list(found.planned.assumed),
        "remarks": list(remarks(found)),
        "demand": {
            "requests": demand.requests,
            "seconds": round(demand.last, 3),
            "promptTokens": demand.prompt_tokens,
            "outputTokens": demand.output_tokens,
            "busiestMinute": demand.busiest,
            "unattainableShare": demand.unattainable_share,
        },
        "settings": [_row(found, each) for each in settings_in_order(found)],
        "cheapest": None if found.cheapest is None else label(found.cheapest, case),
        "overTime": {
            label(each, case): [
                {
                    "at": part.begin,
                    "requestsPerSecond": round(part.rate, 4),
                    "replicas": round(part.replicas, 3),
                    "attainment": part.attainment,
                }
                for part in found.over_time(each, 1440)
            ]
            for each in dict.fromkeys((as_written(case), found.shown))
        },
    }


def _row(found: Found, setting: Setting) -> dict[str, Any]:
    figures, case = found.tried[setting], found.case
    fields: dict[str, Any] = (
        {
            "minReplicas": setting.minimum,
            "attainment": setting.attainment,
            "stabilization": duration(setting.hold),
        }
        if isinstance(setting, Scaled)
        else {"replicas": setting.replicas}
    )
    return {
        "setting": label(setting, case),
        "fields": fields,
        "requests": figures.requests,
        "attainment": figures.attainment,
        "timeToFirstTokenMet": figures.first_token,
        "timePerOutputTokenMet": figures.per_token,
        "keepsPromise": keeps(figures, case),
        "replicaHours": round(figures.replica_hours, 4),
        "acceleratorHours": round(accelerator_hours(figures, case), 4),
        "cost": None if case.price is None else round(cost(figures, case), 2),
        "mostReplicas": figures.peak,
        "violationMinutes": figures.violation_minutes,
        "reversals": figures.reversals,
    }
