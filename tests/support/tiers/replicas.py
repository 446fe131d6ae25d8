"""Tiers that break a rule on volumes, scaling, rollout, traffic or identity."""

from typing import Final

from tests.support.tiers.cases import AUTO, FALLBACK, REMOVE, SHARED, Case

CACHE: Final[tuple[Case, ...]] = (
    Case("spec.cache.weights.size", "the volume is smaller", {"cache.weights": {"size": 200}}),
    Case("spec.cache.compile.size", "the volume is smaller", {"cache.compile": {"size": "1023Ki"}}),
    *(
        Case(
            f"spec.cache.{name}.reclaimPolicy",
            "a volume of each replica goes",
            {f"cache.{name}": {"size": "1Gi", "sharing": "PerReplica", "reclaimPolicy": "Retain"}},
        )
        for name in ("weights", "compile")
    ),
    Case(
        "spec.cache.weights",
        "a retained volume keeps",
        {},
        before={"cache.weights": SHARED},
    ),
    Case(
        "spec.cache.weights.accessMode",
        "replicas on several nodes",
        {"cache.weights": {"size": "1Gi"}, "replicas": 2},
    ),
    Case(
        "spec.cache.compile.accessMode",
        "replicas on several nodes",
        {"cache.compile": {"size": "1Gi", "sharing": "Shared"}} | AUTO,
    ),
    Case("spec.cache.weights", "pvc:// and file:// sources", {"cache.weights": {"size": "1Gi"}}, "cpu"),
    *(
        Case(
            "spec.model.source",
            "gs:// and oci:// sources are not supported yet",
            {"model.source": source, "cache.weights": {"size": "1Gi"}},
        )
        for source in ("gs://bucket/m", "oci://registry/m")
    ),
    *(
        Case(f"spec.cache.{name}", "a retained volume keeps", after, before={f"cache.{name}": kept})
        for name in ("weights", "compile")
        for kept in [SHARED | {"sharing": "Shared", "reclaimPolicy": "Retain"}]
        for after in (
            {},
            {f"cache.{name}": kept | {"storageClassName": "other"}},
            {f"cache.{name}": {key: value for key, value in kept.items() if key != "storageClassName"}},
            {f"cache.{name}": kept | {"accessMode": "ReadWriteOnce"}},
            {f"cache.{name}": kept | {"sharing": "PerReplica", "reclaimPolicy": "Delete"}},
        )
    ),
    *(
        Case(
            f"spec.cache.{name}.size",
            "a volume can grow",
            {f"cache.{name}": SHARED | {"sharing": "Shared", "size": "9.5Gi"}},
            before={f"cache.{name}": SHARED | {"sharing": "Shared"}},
        )
        for name in ("weights", "compile")
    ),
)

SCALING: Final[tuple[Case, ...]] = (
    Case("spec.scaling.minReplicas", "minReplicas is above", AUTO | {"scaling.minReplicas": 5}),
    Case("spec.scaling.maxReplicas", "mode Auto needs maxReplicas", AUTO | {"scaling.maxReplicas": REMOVE}),
    Case("spec.scaling.objectives", "modes Auto and Recommend", AUTO | {"scaling.objectives": {}}),
    Case("spec.scaling.objectives", "modes Auto and Recommend", {"scaling.mode": "Recommend"}),
    Case(
        "spec.scaling.objectives.timeToFirstToken",
        "no request can meet",
        {"scaling.objectives": {"timeToFirstToken": "0ms"}},
    ),
    Case(
        "spec.scaling.objectives.timePerOutputToken",
        "no request can meet",
        {"scaling.objectives": {"timePerOutputToken": "0h0m"}},
    ),
    Case("spec.scaling.attainment", "an attainment of zero", {"scaling.attainment": "0.00"}),
    Case("spec.scaling.coldStart", "no pod starts", {"scaling.coldStart": "0s"}),
    Case("spec.scaling.coldStart", "coldStart is above 24h", {"scaling.coldStart": "24h1s"}),
    Case(
        "spec.scaling.scaleDown.stabilization",
        "stabilization is above 24h",
        {"scaling.scaleDown": {"stabilization": "72h"}},
    ),
    Case("spec.replicas", "replicas is below", {"scaling.minReplicas": 2}),
    Case("spec.replicas", "replicas is above", {"scaling.maxReplicas": 2, "replicas": 3}),
    Case(
        "spec.replicas",
        "the operator sets the replicas",
        AUTO | {"replicas": 3},
        before=AUTO | {"replicas": 2},
    ),
    Case("spec.replicas", "the operator sets the replicas", AUTO | {"replicas": 0}, before=AUTO),
)

ROLLOUT_AND_TRAFFIC: Final[tuple[Case, ...]] = (
    *(
        Case("spec.rollout.maxUnavailable", "a rollout cannot move", {"rollout": rollout})
        for rollout in (
            {"maxUnavailable": 0},
            {"maxUnavailable": "0%", "maxSurge": "0"},
            {"maxUnavailable": "0", "maxSurge": 0},
        )
    ),
    Case(
        "spec.rollout.strategy",
        "strategy Recreate stops",
        {"rollout": {"strategy": "Recreate", "maxSurge": 1}},
    ),
    Case(
        "spec.rollout.strategy",
        "with a shared volume that one node",
        {"rollout.maxUnavailable": 1, "cache.weights": {"size": "1Gi"}},
    ),
    Case(
        "spec.rollout.maxSurge",
        "an extra pod could not mount",
        {"rollout": {"strategy": "RollingUpdate", "maxSurge": "25%"}, "cache.weights": {"size": "1Gi"}},
    ),
    Case("spec.rollout.startupTimeout", "startupTimeout lies outside", {"rollout.startupTimeout": "9s999ms"}),
    Case("spec.rollout.startupTimeout", "startupTimeout lies outside", {"rollout.startupTimeout": "24h1ms"}),
    Case("spec.rollout.drainTimeout", "drainTimeout is above", {"rollout.drainTimeout": "25h"}),
    Case(
        "spec.traffic.fallback.to",
        "a tier cannot fall back",
        {"traffic.fallback": FALLBACK | {"to": "fast"}},
    ),
    Case(
        "spec.traffic.fallback.firstTokenTimeout",
        "falling back on FirstTokenTimeout",
        {"traffic.fallback": FALLBACK | {"when": ["FirstTokenTimeout"]}},
    ),
    Case(
        "spec.traffic.fallback.firstTokenTimeout",
        "firstTokenTimeout is not used",
        {"traffic.fallback": FALLBACK | {"firstTokenTimeout": "1s"}},
    ),
    Case(
        "spec.traffic.fallback.firstTokenTimeout",
        "no first token comes",
        {"traffic.fallback": FALLBACK | {"when": ["FirstTokenTimeout"], "firstTokenTimeout": "0s"}},
    ),
    *(
        Case(
            f"spec.traffic.limitsPerTenant.{name}",
            "a limit below one token",
            {f"traffic.limitsPerTenant.{name}": few},
        )
        for name, few in (("inputTokensPerMinute", "999m"), ("outputTokensPerMinute", 0))
    ),
)

IDENTITY: Final[tuple[Case, ...]] = (
    Case("spec.model.name", "model.name cannot change", {"model.name": "n"}, before={}),
    Case("spec.speed", "speed cannot change", {"speed": "slow"}, before={}),
    Case(
        "spec.hardware.accelerator",
        "accelerator cannot change",
        {"hardware": {"accelerator": "cpu"}},
        before={},
    ),
)
