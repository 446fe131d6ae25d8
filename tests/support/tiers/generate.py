"""Generates specs that are nearly right: some fields at a time, with values on both sides of bounds and rules."""

from typing import Any, Final

from hypothesis import strategies as st

from tests.support.tiers.cases import BASES, REMOVE, Spec, spec

_KEY: Final = {"name": "s", "key": "k"}
_DRAFTS: Final = ("hf://o/d@main", "s3://bucket/d", "pvc://c/d", "gs://b/d", "hf://d")
_DURATIONS: Final = (
    "0s",
    "0ms",
    "9s",
    "10s",
    "1h30m",
    "24h",
    "24h1s",
    "1.5s",
    "99999999ms",
    "5",
    "1d",
    "-1s",
    "",
)
_QUANTITIES: Final = (
    0,
    1,
    4,
    -1,
    "0",
    "1",
    "500m",
    "1Ki",
    "1Mi",
    "200Gi",
    "1.5Gi",
    "1e3",
    "999999999999P",
    "x",
    "",
)
_VOLUME: Final = {
    "size": ("1Gi", "2Gi", "2048Mi", "1Ki", 5, "0", REMOVE),
    "storageClassName": ("fsx", "ebs", "-x", REMOVE),
    "accessMode": ("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod", "Never", REMOVE),
    "sharing": ("Shared", "PerReplica", REMOVE),
    "reclaimPolicy": ("Retain", "Delete", REMOVE),
}
_ARGUMENTS: Final = (
    *(
        "--seed=3",
        "--max-num-seqs",
        "--max_num_seqs=4",
        "-tp",
        "-tp=2",
        "--no-enable-prefix-caching",
        "x",
        "--",
    ),
    *(
        "--model-impl=auto",
        "--config",
        "--spec-method",
        "--specialize-active-lora",
        "-q8",
        "-O3",
        "-dpl",
        "-dp",
    ),
    *(
        "--kv-cache-memory-bytes=1G",
        "--kv-cache-dtype-skip-layers",
        "--speculative_config.method=ngram",
        "--po",
        "-",
    ),
    *(
        "--dtype=half",
        "=",
        "--hf-overrides={}",
        "--data-parallel-backend=mp",
        "--enable",
        "--no",
        "-h",
        "--héllo",
    ),
)

VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "model.source": (
        *_DRAFTS,
        "file:///m",
        "file:///a/../b",
        "pvc://c/..",
        "s3://x",
        "s3://bucket/m",
        "file:///.",
        "hf://a/b c",
        "oci://r/m",
        3,
    ),
    "model.tokenSecretRef": (_KEY, {"name": "S", "key": "k"}, {"name": "s"}, REMOVE, None),
    "model.name": ("m", "n", "meta/llama-3.3", "-x", "é", REMOVE),
    "speed": ("fast", "standard", "Fast", "a" * 33, REMOVE),
    "replicas": (0, 1, 2, 3, 1000, 1001, -1, "2", None),
    "suspend": (True, False, "true"),
    "engine.type": ("vllm", "jax", "tgi"),
    "engine.tensorParallel": (1, 2, 4, 6, 8, 64, 65, 0),
    "engine.pipelineParallel": (1, 2),
    "engine.dataParallel": (1, 2),
    "engine.maxModelLen": (16, 2048, 4096, 15),
    "engine.image": ("registry.example.com/a:1", "a b", "", "é"),
    "engine.version": ("0.32.0", "-1"),
    "engine.batching": (
        *({"maxSequences": 64}, {"maxSequences": 64, "maxBatchedTokens": 32}, {"maxBatchedTokens": 0}, {}),
        *({"chunkedPrefill": False, "maxBatchedTokens": 2048}, {"chunkedPrefill": None}, None),
    ),
    "engine.speculation": (
        *({"method": method, "tokens": 3} for method in ("NGram", "DraftModel", "Eagle3", "MTP", "Magic")),
        *({"method": "DraftModel", "tokens": 3, "draftModel": {"source": source}} for source in _DRAFTS),
        *({"method": "MTP", "tokens": 33, "draftModel": {"source": "hf://o/d"}}, {"method": "NGram"}),
        {"method": "NGram", "tokens": 3, "disableAboveBatchSize": 8},
    ),
    "engine.kvCache.dtype": ("auto", "fp8", "int8", "bfloat16", "fp4"),
    "engine.kvCache.memoryFraction": ("0", "0.0", "0.9", "1", "1.0", "1.1", "0.1234567", 1),
    "engine.kvCache.blockSize": (1, 16, 32, 128, 17),
    "engine.kvCache.hostOffload": _QUANTITIES,
    "engine.promptCache": ({"ttl": "5m"}, {"ttl": "0s"}, {"scope": "Tenant"}, {"enabled": False}, {}, None),
    "engine.jax": (
        {},
        {"lengthBuckets": [128, 256]},
        {"lengthBuckets": [128, 128]},
        {"prefillBuckets": [15]},
        {"lengthBuckets": [1000]},
        {"lengthBuckets": [2048, 128], "prefillBuckets": [4096, 64]},
        {"lengthBuckets": [4096], "prefillBuckets": [8192]},
        {"lengthBuckets": [2176]},
    ),
    "engine.env": (
        *(
            [],
            [{"name": "A", "value": "x"}],
            [{"name": "A"}, {"name": "A"}],
            [{"name": "HOME", "value": "/"}],
        ),
        *(
            [{"name": "1A", "value": "x"}],
            [{"name": "A", "value": "x" * 4097}],
            [{"name": "HF_TOKEN", "value": ""}],
        ),
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}],
        [{"name": "A", "valueFrom": {"secretKeyRef": _KEY, "configMapKeyRef": _KEY}}],
        [{"name": "A", "value": "x", "valueFrom": {}}],
    ),
    "hardware.count": (1, 2, 3, 4, 64, 65, REMOVE),
    "hardware.hosts": (1, 2, 0),
    "hardware.resourceName": (
        *("nvidia.com/gpu", "nvidia.com/mig-3g.40gb", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"),
        *("aws.amazon.com/neurondevice", "gpu", "a/b/c"),
    ),
    "hardware.nodePool.matchLabels": (
        {"a/b": "c"},
        {"": "x"},
        {"a b": "c"},
        {"a": "-"},
        {"a" * 64: "b"},
        {"A/b": ""},
    ),
    "hardware.nodePool.matchExpressions": tuple(
        [{"key": "a", "operator": operator, "values": values}]
        for operator, values in (
            ("In", ["x"]),
            ("In", []),
            ("Exists", ["x"]),
            ("Gt", ["7"]),
            ("Lt", ["x"]),
            ("Is", []),
        )
    ),
    "hardware.tolerations": (
        *(
            [{}],
            [{"operator": "Exists"}],
            [{"key": "a", "operator": "Exists", "value": "b"}],
            [{"key": "a b"}],
        ),
        *(
            [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 3}],
            [{"key": "a", "tolerationSeconds": 3}],
        ),
        *([{"key": "", "operator": "Exists", "value": ""}], [{"key": "a"}, {"value": "b"}]),
    ),
    "hardware.resources.cpu": _QUANTITIES,
    "hardware.resources.memory": _QUANTITIES,
    "hardware.resources.sharedMemory": _QUANTITIES,
    "pod.serviceAccount": (
        {"name": "a"},
        {"name": "a", "annotations": {"a": "b"}},
        {"annotations": {"a/b/c": "d"}},
    ),
    "podTemplate": ({}, {"spec": {"anything": None}}, {"metadata": {"labels": {"a": "b"}}}),
    "scaling.mode": ("Auto", "Recommend", "Manual", "auto", None),
    "scaling.minReplicas": (0, 1, 2, 3, -1),
    "scaling.maxReplicas": (1, 2, 3, 0, 1001),
    "scaling.objectives": (
        {},
        *({"timeToFirstToken": text} for text in _DURATIONS),
        {"timePerOutputToken": "25ms"},
    ),
    "scaling.attainment": ("0", "0.95", "1", "95%", 1),
    "scaling.coldStart": _DURATIONS,
    "scaling.cost": ({"perReplicaHour": "39.3"}, {"perReplicaHour": 39}, {}),
    "rollout.strategy": ("RollingUpdate", "Recreate", "BlueGreen"),
    "rollout.maxSurge": (0, 1, "0", "0%", "25%", "100%", "101%", 9999, 10000, "01", -1),
    "rollout.maxUnavailable": (0, 1, "0", "0%", "25%"),
    "rollout.drainTimeout": _DURATIONS,
    "rollout.startupTimeout": _DURATIONS,
    "traffic.fallback": (
        *(
            {"to": "standard", "when": ["RateLimited"]},
            {"to": "fast", "when": ["Overloaded"]},
            {"to": "slow", "when": []},
        ),
        *(
            {"to": "slow", "when": ["FirstTokenTimeout"]},
            {"to": "slow", "when": ["Overloaded", "Overloaded"]},
        ),
        *(
            {"to": "slow", "when": [reason], "firstTokenTimeout": text}
            for reason in ("Overloaded", "FirstTokenTimeout")
            for text in ("10s", "0s")
        ),
    ),
    "traffic.limitsPerTenant.inputTokensPerMinute": _QUANTITIES,
    "unknown": (1,),
}
"""Values for each field; None is a null, as YAML writes an empty field."""


@st.composite
def changes(draw: st.DrawFn, most: int = 7) -> dict[str, Any]:
    """Changes of some fields of a base."""
    paths = draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True, max_size=most))
    made = {path: draw(st.sampled_from(VALUES[path])) for path in paths}
    for name in draw(st.lists(st.sampled_from(("weights", "compile")), unique=True, max_size=2)):
        made |= draw(_volume(name))
    if draw(st.booleans()):
        made["engine.extraArgs"] = draw(st.lists(st.sampled_from(_ARGUMENTS), max_size=3))
    return made


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """A spec that is nearly right."""
    return spec(draw(st.sampled_from(sorted(BASES))), draw(changes()))


@st.composite
def successions(draw: st.DrawFn) -> tuple[Spec, Spec]:
    """A spec and the one that replaces it; most fields stay."""
    base, before = draw(st.sampled_from(sorted(BASES))), draw(changes(4))
    after = before | draw(changes(3))
    return spec(base, before), spec(base, after)


@st.composite
def _volume(draw: st.DrawFn, name: str) -> dict[str, Any]:
    return {f"cache.{name}.{field}": draw(st.sampled_from(values)) for field, values in _VOLUME.items()}
