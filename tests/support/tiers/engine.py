"""Tiers that break a rule on the engine, its environment or the sources of weights."""

from typing import Final

from tests.support.tiers.cases import DRAFT, Case

ENGINE: Final[tuple[Case, ...]] = (
    Case(
        "spec.engine.speculation.draftModel",
        "methods DraftModel and Eagle3 propose",
        {"engine.speculation": {"method": "Eagle3", "tokens": 3}},
    ),
    Case(
        "spec.engine.speculation.draftModel",
        "methods NGram and MTP use no",
        {"engine.speculation": {"method": "MTP", "tokens": 3, "draftModel": DRAFT}},
    ),
    Case("spec.engine.jax", "only engine.type jax", {"engine.jax": {"lengthBuckets": [128]}}),
    Case(
        "spec.engine.jax.lengthBuckets",
        "attention is computed in blocks of 128",
        {"engine.jax": {"lengthBuckets": [512, 1000]}},
        "neuron",
    ),
    Case(
        "spec.engine.jax.prefillBuckets",
        "no prompt chunk fits",
        {"engine.jax": {"lengthBuckets": [128, 256], "prefillBuckets": [512, 384]}},
        "neuron",
    ),
    Case(
        "spec.engine.jax.lengthBuckets",
        "the longest bucket is shorter",
        {"engine.jax": {"lengthBuckets": [128, 1024]}, "engine.maxModelLen": 1025},
        "neuron",
    ),
    Case(
        "spec.engine.jax.lengthBuckets",
        "a bucket is longer than maxModelLen",
        {"engine.jax": {"lengthBuckets": [1024, 1152]}, "engine.maxModelLen": 1024},
        "neuron",
    ),
    Case(
        "spec.engine.speculation.disableAboveBatchSize",
        "vllm cannot change the number",
        {
            "engine.dataParallel": 2,
            "hardware.count": 2,
            "engine.speculation": {"method": "NGram", "tokens": 3, "disableAboveBatchSize": 8},
        },
    ),
    Case("spec.engine.promptCache.ttl", "vllm has no lifetime", {"engine.promptCache.ttl": "5m"}),
    Case("spec.engine.promptCache.ttl", "a lifetime of zero", {"engine.promptCache.ttl": "0s"}, "neuron"),
    Case(
        "spec.engine.batching.maxBatchedTokens",
        "without chunkedPrefill",
        {"engine.batching": {"chunkedPrefill": False, "maxBatchedTokens": 1024}, "engine.maxModelLen": 2048},
    ),
    Case(
        "spec.engine.batching.maxBatchedTokens",
        "a step takes at least one token",
        {"engine.batching": {"maxSequences": 64, "maxBatchedTokens": 32}},
    ),
    Case(
        "spec.engine.kvCache.memoryFraction",
        "no engine runs on none",
        {"engine.kvCache.memoryFraction": "0.0"},
    ),
    Case("spec.engine.kvCache.hostOffload", "an offload of zero", {"engine.kvCache.hostOffload": 0}),
    Case("spec.engine.kvCache.dtype", "vllm on cpu keeps", {"engine.kvCache.dtype": "int8"}, "cpu"),
    Case("spec.engine.kvCache.blockSize", "vllm on cpu takes", {"engine.kvCache.blockSize": 16}, "cpu"),
    Case("spec.engine.kvCache.hostOffload", "only GPUs move", {"engine.kvCache.hostOffload": "4Gi"}, "cpu"),
    Case(
        "spec.engine.kvCache.hostOffload", "only GPUs move", {"engine.kvCache.hostOffload": "4Gi"}, "neuron"
    ),
    Case(
        "spec.engine.kvCache.memoryFraction",
        "neuron allocates",
        {"engine.kvCache.memoryFraction": "1"},
        "neuron",
    ),
    Case(
        "spec.engine.kvCache.hostOffload",
        "the offloaded blocks do not fit",
        {"engine.kvCache.hostOffload": "64Gi", "hardware.resources.memory": "64Gi"},
    ),
    Case(
        "spec.engine.env[1].value",
        "a variable has one of",
        {"engine.env": [{"name": "A", "value": ""}, {"name": "B"}]},
    ),
    Case(
        "spec.engine.env[0].value",
        "a variable has one of",
        {
            "engine.env": [
                {"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
            ]
        },
    ),
    Case(
        "spec.engine.env[0].valueFrom.secretKeyRef",
        "valueFrom names one source",
        {
            "engine.env": [
                {
                    "name": "A",
                    "valueFrom": {
                        "secretKeyRef": {"name": "s", "key": "k"},
                        "configMapKeyRef": {"name": "c", "key": "k"},
                    },
                }
            ]
        },
    ),
    Case(
        "spec.engine.env[0].valueFrom.secretKeyRef",
        "valueFrom names one source",
        {"engine.env": [{"name": "A", "valueFrom": {}}]},
    ),
    Case("spec.engine.env[0].name", "the operator sets", {"engine.env": [{"name": "HOME", "value": "/x"}]}),
    Case(
        "spec.engine.env[0].name",
        "the device plugin sets",
        {"engine.env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]},
    ),
    Case(
        "spec.engine.env[0].name", "the token is passed", {"engine.env": [{"name": "HF_TOKEN", "value": "x"}]}
    ),
)

SOURCES: Final[tuple[Case, ...]] = (
    Case("spec.model.source", "gs:// and oci://", {"model.source": "gs://bucket/m"}),
    Case("spec.model.source", "gs:// and oci://", {"model.source": "oci://registry/m:1"}),
    *(
        Case("spec.model.source", "the source has none of the forms", {"model.source": source})
        for source in (
            "hf://repo",
            "hf://a/b/c",
            "hf://a/b@",
            "s3://B/x",
            "pvc://Claim",
            "file://x",
            "file:///./",
            "s3://a",
        )
    ),
    Case("spec.model.source", "the source holds a '..'", {"model.source": "pvc://models/../other"}, "cpu"),
    Case(
        "spec.engine.speculation.draftModel.source",
        "gs:// and oci://",
        {"engine.speculation": {"method": "DraftModel", "tokens": 3, "draftModel": {"source": "gs://b/m"}}},
    ),
    Case(
        "spec.engine.speculation.draftModel.source",
        "the source has none of the forms",
        {"engine.speculation": {"method": "DraftModel", "tokens": 3, "draftModel": {"source": "hf://m"}}},
    ),
    Case(
        "spec.engine.speculation.draftModel.source",
        "the source holds a '..'",
        {
            "engine.speculation": {
                "method": "DraftModel",
                "tokens": 3,
                "draftModel": {"source": "file:///a/.."},
            }
        },
    ),
    Case(
        "spec.model.tokenSecretRef",
        "a token is used only",
        {"model.tokenSecretRef": {"name": "s", "key": "k"}},
        "cpu",
    ),
    Case(
        "spec.model.tokenSecretRef",
        "a token is used only",
        {"model.tokenSecretRef": {"name": "s", "key": "k"}},
        "neuron",
    ),
)
