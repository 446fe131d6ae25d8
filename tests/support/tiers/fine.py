"""Tiers that pass although they come close to a rule."""

from typing import Final

from tests.support.tiers.cases import AUTO, BASES, DRAFT, FALLBACK, SHARED, Fine, with_args

FINE: Final[tuple[Fine, ...]] = (
    *(Fine({}, base) for base in BASES),
    Fine(
        with_args("--seed", "3", "--performance-mode", "interactivity", "--enforce-eager", "--api-key", "x")
    ),
    Fine(
        with_args("--kv-cache-dtype-skip-layers", "0", "--quantization-config={}", "--specialize-active-lora")
    ),
    Fine(
        with_args(
            "--kv-cache-memory-bytes", "8G", "--max-num-active-seqs=4", "--data-parallel-backend", "mp", "-O3"
        )
    ),
    Fine(
        with_args(
            "--model-impl=auto", "--tokenizer", "owner/other", "--compilation-config.mode=3", "-cc.mode", "3"
        )
    ),
    Fine({"engine.speculation": {"method": "DraftModel", "tokens": 3, "draftModel": DRAFT}}),
    Fine({"engine.speculation": {"method": "NGram", "tokens": 3}}),
    Fine({"engine.promptCache.ttl": "5m", "engine.jax": {"prefillBuckets": [128, 512]}}, "neuron"),
    Fine(
        {
            "engine.jax": {"lengthBuckets": [1152, 128], "prefillBuckets": [2048, 64]},
            "engine.maxModelLen": 1025,
        },
        "neuron",
    ),
    Fine(
        {"engine.jax": {"lengthBuckets": [1024], "prefillBuckets": [1024]}, "engine.maxModelLen": 1024},
        "neuron",
    ),
    Fine(
        {"engine.jax": {"lengthBuckets": [], "prefillBuckets": [4096]}, "engine.maxModelLen": 1024}, "neuron"
    ),
    Fine({"engine.jax": {"lengthBuckets": [4096]}}, "neuron"),
    Fine(
        {
            "engine.dataParallel": 2,
            "hardware.count": 2,
            "engine.speculation": {"method": "NGram", "tokens": 3},
        }
    ),
    Fine({"engine.promptCache.scope": "Tenant"}),
    Fine({"engine.kvCache": {"dtype": "fp8", "blockSize": 32, "memoryFraction": "0.5"}}, "cpu"),
    Fine({"engine.kvCache": {"hostOffload": "64Gi"}, "hardware.resources.memory": "65Gi"}),
    Fine(
        {"engine.batching": {"chunkedPrefill": False, "maxBatchedTokens": 2048}, "engine.maxModelLen": 2048}
    ),
    Fine({"engine.batching": {"chunkedPrefill": True, "maxBatchedTokens": 64, "maxSequences": 64}}),
    Fine({"engine.env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}),
    *(
        Fine({"model.source": source})
        for source in (
            "hf://a/b",
            "hf://a/b.c@refs/pr/1",
            "s3://abc",
            "s3://a.b-c/d/e@f",
            "pvc://c",
            "file:///m..x",
        )
    ),
    Fine(
        {
            "model.source": "pvc://models/m",
            "model.tokenSecretRef": {"name": "s", "key": "k"},
            "cache.weights": {"size": "1Gi"},
            "engine.speculation": {"method": "DraftModel", "tokens": 3, "draftModel": DRAFT},
        }
    ),
    Fine(
        {"engine.tensorParallel": 2, "engine.pipelineParallel": 2, "hardware.count": 2, "hardware.hosts": 2}
    ),
    Fine({"hardware.resourceName": "nvidia.com/mig-3g.40gb"}),
    Fine(
        {"engine.tensorParallel": 8, "hardware.count": 4, "hardware.resourceName": "aws.amazon.com/neuron"},
        "neuron",
    ),
    Fine(
        {
            "engine.tensorParallel": 8,
            "hardware.count": 8,
            "hardware.resourceName": "aws.amazon.com/neuroncore",
        },
        "neuron",
    ),
    Fine(
        {
            "hardware.nodePool": {
                "matchLabels": {"karpenter.sh/nodepool": "h100", "pool": ""},
                "matchExpressions": [
                    {"key": "a/b", "operator": "In", "values": ["x", "y"]},
                    {"key": "c", "operator": "DoesNotExist"},
                    {"key": "d", "operator": "Gt", "values": ["3"]},
                ],
            },
            "hardware.tolerations": [
                {"operator": "Exists"},
                {"key": "a", "value": "b"},
                {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3},
            ],
            "hardware.resources": {
                "cpu": 4,
                "memory": "4Gi",
                "sharedMemory": "2Gi",
                "ephemeralStorage": "1Gi",
            },
        }
    ),
    Fine({"hardware.resources": {"memory": "2Mi", "sharedMemory": "1Mi", "ephemeralStorage": "1Mi"}}),
    Fine({"cache.weights": {"size": "1Gi"}}),
    Fine(
        {"cache.weights": {"size": "1Gi", "accessMode": "ReadWriteOncePod", "sharing": "PerReplica"}} | AUTO
    ),
    Fine({"cache.weights": SHARED} | AUTO),
    Fine({"cache.compile": {"size": "1Gi", "sharing": "PerReplica", "reclaimPolicy": "Delete"}}),
    Fine({"cache.weights": SHARED | {"size": "11Gi"}}, before={"cache.weights": SHARED}),
    Fine({"cache.weights": SHARED | {"reclaimPolicy": "Delete"}}, before={"cache.weights": SHARED}),
    Fine({}, before={"cache.weights": SHARED | {"reclaimPolicy": "Delete"}}),
    Fine({}, before={"cache.compile": {"size": "2Gi"}}),
    Fine({"cache.compile": {"size": "1Gi"}}, before={"cache.compile": {"size": "2Gi"}}),
    Fine({"cache.weights": SHARED}, before={}),
    Fine(AUTO | {"scaling.minReplicas": 0, "replicas": 9}),
    Fine({"replicas": 0}),
    Fine({"scaling.minReplicas": 2, "scaling.maxReplicas": 3, "replicas": 2}),
    Fine(AUTO, before=AUTO | {"replicas": 3}),
    Fine(AUTO | {"replicas": 3, "scaling.attainment": "0.9"}, before=AUTO | {"replicas": 3}),
    Fine({"replicas": 3}, before=AUTO | {"replicas": 2}),
    Fine(AUTO | {"replicas": 3}, before={"replicas": 2}),
    Fine({"rollout": {"maxSurge": "25%", "maxUnavailable": 0}}),
    Fine({"scaling.coldStart": "24h", "scaling.scaleDown": {"stabilization": "24h"}}),
    Fine({"rollout": {"strategy": "Recreate", "startupTimeout": "24h", "drainTimeout": "0s"}}),
    Fine(
        {
            "rollout": {"strategy": "RollingUpdate", "maxSurge": 0, "maxUnavailable": 1},
            "cache.weights": {"size": "1Gi"},
        }
    ),
    Fine({"traffic.fallback": FALLBACK | {"when": ["FirstTokenTimeout"], "firstTokenTimeout": "1.5s"}}),
    Fine({"traffic.limitsPerTenant": {"inputTokensPerMinute": "2M", "outputTokensPerMinute": 1}}),
    Fine({"pod.serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "x"}}}),
)
"""Each passes."""
