"""The real worker in real pods: a Job compiles onto the shared volume, and every pod of the tier loads what lies there."""

import re

import pytest

from dev.cluster.images.image import load_image
from dev.demo.model_image import MODEL, MODEL_IMAGE, build_model_image
from tests.e2e.installation import Installation, Object, pods, serves, tier
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually

NAME = "smollm"
STARTED = re.compile(r"warm in .* s: programs (\{[^}]*\})")


@pytest.fixture(scope="module")
def worker_image(installation: Installation) -> None:
    """The nodes know the worker's image, with a small model in it."""
    load_image(build_model_image(), installation.cluster.run_dir)


def jax_tier() -> Object:
    """A tier of as few programs as there can be."""
    volume = {"size": "2Gi", "storageClassName": "shared", "accessMode": "ReadWriteMany", "sharing": "Shared"}
    return tier(
        NAME,
        model={"name": MODEL, "source": "file:///models/smollm2.gguf"},
        engine={
            "type": "jax",
            "image": MODEL_IMAGE,
            "maxModelLen": 256,
            "batching": {"maxSequences": 1},
            "promptCache": {"enabled": False},
            "jax": {"lengthBuckets": [256], "prefillBuckets": [64]},
        },
        hardware={
            "accelerator": "cpu",
            "nodePool": {"matchLabels": {"karpenter.sh/nodepool": "standard"}},
            "resources": {"cpu": "100m", "memory": "3Gi", "sharedMemory": "16Mi"},
        },
        cache={"compile": volume},
        rollout={"drainTimeout": "1s", "startupTimeout": "15m"},
    )


def programs(installation: Installation, k8s: Kubernetes, pod: str) -> str:
    """Where a pod had its programs from, by its own log."""
    log = installation.tools(k8s.namespace).kubectl("logs", pod, "--container", "engine")
    found = STARTED.search(log)
    assert found is not None, log[-2000:]
    return found[1]


def ready_pods(k8s: Kubernetes) -> set[str]:
    """The names of the tier's pods that are ready."""
    return {
        pod["metadata"]["name"]
        for pod in pods(k8s, NAME)
        if any((each["type"], each["status"]) == ("Ready", "True") for each in pod["status"]["conditions"])
    }


@pytest.mark.usefixtures("worker_image")
def test_pods_load_what_the_job_compiled_and_so_does_each_new_one(
    installation: Installation, serving: Kubernetes
) -> None:
    """aws-neuron-sdk#1368, dynamo#10695: a cache on shared storage was mounted by a new pod, and not used."""
    serving.apply(jax_tier())
    eventually(lambda: serving.list("Job", f"tierwright.dev/tier={NAME}"), "the Job")
    assert pods(serving, NAME) == [], "no pod starts before the Job has ended"
    serves(serving, NAME, deadline_s=600)
    said = serving.condition(NAME, "CompileCacheReady")
    assert (said["status"], said["reason"]) == ("True", "Compiled")
    assert re.search(r" took \d+ s$", said["message"])
    assert serving.list("Job", f"tierwright.dev/tier={NAME}") == []
    (first,) = pods(serving, NAME)
    assert "compiled" not in programs(installation, serving, first["metadata"]["name"])

    serving.delete("Pod", first["metadata"]["name"])

    # Of the pods themselves: the tier's status may still tell of the first one.
    others = eventually(lambda: ready_pods(serving) - {first["metadata"]["name"]}, "another is ready", 300)
    assert "compiled" not in programs(installation, serving, others.pop())
