"""The status names what keeps a tier from serving, in words of whoever knows, and clears when it is mended."""

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from dev.cluster.kwok.nodes import set_node_ready
from tests.integration.live import (
    NAME,
    Object,
    apply_ready,
    behaving,
    events,
    tier,
    uid,
    wait_condition,
    wait_one_event,
    wait_ready,
)
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually, holds_for

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("operator")]

CRD = Path(__file__).resolve().parents[2] / "crds" / "tierwright.dev_inferencetiers.yaml"


def hardware(**fields: Any) -> Object:
    """The usual hardware with other fields."""
    return {**tier()["spec"]["hardware"], **fields}


def message(k8s: Kubernetes, kind: str, status: str, reason: str, **more: Any) -> str:
    """The words of a condition, once it has this status and reason."""
    return str(wait_condition(k8s, kind, status, reason, **more)["message"])


def test_kubectl_waits_for_ready(k8s: Kubernetes, cluster: "Cluster") -> None:
    k8s.apply(tier())
    kubectl = [str(cluster.kubectl), "--kubeconfig", str(k8s.kubeconfig), "-n", k8s.namespace]
    subprocess.run(
        [*kubectl, "wait", "--for=condition=Ready", f"itier/{NAME}", "--timeout=60s"], check=True, timeout=90
    )
    table = subprocess.run([*kubectl, "get", "itier"], check=True, capture_output=True, text=True).stdout
    assert table.splitlines()[1].split()[:5] == [NAME, "meta/llama", "fast", "nvidia", "1/1"]
    eventually(lambda: events(k8s, "Serving"), "an Event tells that the tier serves")
    told = subprocess.run(
        [*kubectl, "describe", "itier", NAME], check=True, capture_output=True, text=True
    ).stdout
    assert "1 of 1 replicas are ready" in told


def test_status_tells_what_runs_and_where(k8s: Kubernetes) -> None:
    apply_ready(
        k8s, tier(replicas=2, podTemplate=behaving("", **{"kwok.tierwright.dev/startup-seconds": "3"}))
    )
    live = k8s.must_get("InferenceTier", NAME)
    status = live["status"]
    assert status["observedGeneration"] == live["metadata"]["generation"]
    assert (status["ready"], status["replicas"], status["readyReplicas"], status["desiredReplicas"]) == (
        "2/2",
        2,
        2,
        2,
    )
    assert status["workload"] == {"kind": "Deployment", "name": NAME}
    assert status["endpoint"] == f"{NAME}.{k8s.namespace}.svc:8000"
    assert status["selector"] == f"tierwright.dev/tier={NAME}"
    assert status["nodePool"] == "karpenter.sh/nodepool=fast"
    assert status["engine"]["image"].startswith("vllm/vllm-openai:v")
    assert status["startup"]["loadingSeconds"] >= 2
    assert status["startup"]["totalSeconds"] >= status["startup"]["loadingSeconds"]


def test_crash_loop_shows_with_exit_code_restarts_and_last_words(k8s: Kubernetes) -> None:
    """kserve#1859: pods in a crash loop while the tier said Ready."""
    crash = {
        "kwok.tierwright.dev/exit-code": "3",
        "kwok.tierwright.dev/message": "ValueError: no such model",
        "kwok.tierwright.dev/backoff-seconds": "2",
    }
    k8s.apply(tier(podTemplate=behaving("crash-loop", **crash)))
    words = message(k8s, "Ready", "False", "EngineCrashed")
    assert "exit code 3" in words
    assert "last words: ValueError: no such model" in words
    assert wait_condition(k8s, "Reconciling", "True", "EngineCrashed")

    def restarted() -> bool:
        return " 2 restarts" in k8s.condition(NAME, "Ready")["message"]

    eventually(restarted, "restarts are counted")
    wait_one_event(k8s, "EngineCrashed")
    k8s.apply(tier())
    wait_ready(k8s)


def test_serving_tier_whose_pods_start_to_crash_is_no_longer_ready(k8s: Kubernetes) -> None:
    """kserve#2037: nobody looked again when a pod changed and the spec did not."""
    apply_ready(k8s, tier())
    pod = k8s.list("Pod")[0]
    ended = {
        "exitCode": 1,
        "reason": "Error",
        "finishedAt": "2026-11-30T12:00:00Z",
        "startedAt": "2026-11-30T11:00:00Z",
    }
    container = {**pod["status"]["containerStatuses"][0], "ready": False, "state": {"terminated": ended}}
    conditions = [
        {**each, "status": "False"} if each["type"] in ("Ready", "ContainersReady") else each
        for each in pod["status"]["conditions"]
    ]
    annotations = {"kwok.tierwright.dev/behaviour": "crash-loop"}
    k8s.patch("Pod", pod["metadata"]["name"], {"metadata": {"annotations": annotations}})
    k8s.patch(
        "Pod",
        pod["metadata"]["name"],
        {"status": {"containerStatuses": [container], "conditions": conditions}},
        subresource="status",
    )
    wait_condition(k8s, "Ready", "False", "EngineCrashed")


@pytest.mark.parametrize(
    ("behaviour", "reason", "words"),
    [
        ("image-pull-failure", "ImagePullFailed", "failed to resolve reference"),
        ("out-of-memory", "OutOfMemory", "hardware.resources.memory"),
        ("never-ready", "Starting", "its engine is not ready yet"),
    ],
)
def test_pods_that_do_not_start_are_explained(
    k8s: Kubernetes, behaviour: str, reason: str, words: str
) -> None:
    k8s.apply(tier(podTemplate=behaving(behaviour)))
    assert words in eventually(lambda: _words(k8s, reason, words), f"Ready says {reason}: {words}")


def _words(k8s: Kubernetes, reason: str, words: str) -> str:
    ready = k8s.condition(NAME, "Ready")
    assert ready["reason"] == reason, ready
    assert words in ready["message"], ready
    return str(ready["message"])


def test_pool_that_does_not_exist_is_named(k8s: Kubernetes) -> None:
    k8s.apply(tier(hardware=hardware(nodePool={"matchLabels": {"karpenter.sh/nodepool": "no-such"}})))
    assert "no node that the tier tolerates matches its node pool" in message(
        k8s, "Ready", "False", "NodePoolEmpty"
    )
    wait_condition(k8s, "Scheduled", "False", "NodePoolEmpty")
    wait_one_event(k8s, "NodePoolEmpty")


def test_node_too_small_is_told_in_the_schedulers_words(k8s: Kubernetes) -> None:
    """LLMKube#78: no free GPU, and the status only said Creating."""
    resources = {"cpu": "500", "memory": "1Gi"}
    k8s.apply(tier(hardware=hardware(resources=resources)))
    assert "Insufficient cpu" in message(k8s, "Ready", "False", "Unschedulable")
    assert "Insufficient cpu" in message(k8s, "Scheduled", "False", "Unschedulable")
    k8s.apply(tier())
    wait_ready(k8s)
    assert k8s.condition(NAME, "Scheduled")["reason"] == "AllPlaced"


def test_missing_storage_class_is_named(k8s: Kubernetes) -> None:
    """kubeai#286: StorageClass missing, Pending without a word."""
    k8s.apply(
        tier(cache={"weights": {"size": "1Gi", "storageClassName": "no-such", "reclaimPolicy": "Delete"}})
    )
    assert '"no-such" not found' in message(k8s, "Ready", "False", "StorageClassMissing")


def test_missing_storage_class_of_a_volume_per_replica_is_named(k8s: Kubernetes) -> None:
    weights = {"size": "1Gi", "storageClassName": "no-such", "sharing": "PerReplica"}
    k8s.apply(tier(cache={"weights": weights}))
    assert '"no-such" not found' in message(k8s, "Ready", "False", "StorageClassMissing")


def test_missing_claim_of_the_model_is_named(k8s: Kubernetes) -> None:
    k8s.apply(tier(model={"name": "meta/llama", "source": "pvc://no-such/llama"}))
    assert '"no-such" not found' in message(k8s, "Ready", "False", "VolumePending")


def quota(**hard: str) -> Object:
    """A quota of the namespace."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "limits"},
        "spec": {"hard": hard},
    }


def test_quota_on_pods_is_named_and_waited_for(k8s: Kubernetes) -> None:
    k8s.create(quota(pods="0"))
    k8s.apply(tier())
    assert "exceeded quota: limits" in message(k8s, "Ready", "False", "QuotaExceeded")
    wait_condition(k8s, "Scheduled", "False", "QuotaExceeded")
    k8s.delete("ResourceQuota", "limits")
    wait_ready(k8s)


def test_quota_on_a_child_stops_that_child_alone_and_is_tried_again(k8s: Kubernetes) -> None:
    k8s.create(quota(services="1"))
    k8s.apply(tier())
    words = message(k8s, "Stalled", "True", "QuotaExceeded")
    assert f"Service {NAME}-headless" in words
    assert "exceeded quota: limits" in words
    wait_condition(k8s, "Ready", "True", "Serving")
    wait_one_event(k8s, "QuotaExceeded")
    k8s.delete("ResourceQuota", "limits")
    wait_ready(k8s)
    assert k8s.get("Service", f"{NAME}-headless")


def test_second_tier_of_a_speed_waits_until_the_older_one_goes(k8s: Kubernetes) -> None:
    apply_ready(k8s, tier("older"))
    k8s.apply(tier("younger"))
    words = message(k8s, "Stalled", "True", "Conflict", name="younger")
    assert "InferenceTier older" in words
    wait_condition(k8s, "Ready", "False", "Conflict", name="younger")
    holds_for(lambda: k8s.get("Deployment", "younger") is None, "the younger gets no children", seconds=3)
    assert k8s.condition("older", "Ready")["status"] == "True"
    k8s.delete("InferenceTier", "older")
    wait_ready(k8s, "younger")


def test_of_two_tiers_of_one_second_one_serves_and_the_other_waits(k8s: Kubernetes) -> None:
    """The API server counts creation in whole seconds, so most pairs that are applied together are equally old."""
    for number in range(3):
        pair = (f"a{number}", f"b{number}")
        for name in reversed(pair):
            k8s.apply(tier(name, speed=f"s{number}"))

        def one_serves(pair: tuple[str, str] = pair) -> tuple[str, str] | None:
            reasons = {name: k8s.condition(name, "Ready")["reason"] for name in pair}
            assert sorted(reasons.values()) == ["Conflict", "Serving"], reasons
            return pair if reasons[pair[0]] == "Serving" else pair[::-1]

        serves, waits = eventually(one_serves, "one of them serves") or pair
        holds_for(lambda: bool(one_serves() == (serves, waits)), "and goes on to", seconds=2)  # noqa: B023
        k8s.delete("InferenceTier", serves)
        wait_ready(k8s, waits)


def test_tier_that_serves_keeps_its_speed_when_one_of_the_same_second_comes(k8s: Kubernetes) -> None:
    def same_second() -> bool:
        for name in ("b", "a"):
            k8s.delete("InferenceTier", name)
            eventually(lambda name=name: k8s.get("InferenceTier", name) is None, f"{name} is gone")  # type: ignore[misc]
        k8s.apply(tier("b"))
        eventually(lambda: k8s.must_get("InferenceTier", "b")["status"]["endpoint"], "b is at work")
        k8s.apply(tier("a"))
        created = {k8s.must_get("InferenceTier", name)["metadata"]["creationTimestamp"] for name in "ab"}
        return len(created) == 1

    eventually(same_second, "both were made in one second")
    assert "InferenceTier b" in message(k8s, "Stalled", "True", "Conflict", name="a")
    wait_ready(k8s, "b")
    assert k8s.get("Deployment", "a") is None


def test_node_that_stops_answering_is_named(k8s: Kubernetes, admin: Kubernetes) -> None:
    pool = {"matchLabels": {"cloud.google.com/gke-nodepool": "gke-h100"}}
    apply_ready(k8s, tier(hardware=hardware(nodePool=pool)))
    node = k8s.list("Pod")[0]["spec"]["nodeName"]
    admin.list("Namespace")  # a read opens the connection again that the server closed while it was idle
    set_node_ready(admin._api, node, ready=False)
    try:
        assert f"node {node} does not answer" in message(k8s, "Ready", "False", "NodeLost")
    finally:
        set_node_ready(admin._api, node, ready=True)
    wait_ready(k8s)


def test_other_speed_of_the_same_model_is_no_conflict(k8s: Kubernetes) -> None:
    k8s.apply(tier("one"))
    k8s.apply(tier("two", speed="standard"))
    wait_ready(k8s, "one")
    wait_ready(k8s, "two")


def test_what_cannot_be_built_yet_is_refused_in_a_condition(k8s: Kubernetes) -> None:
    k8s.apply(tier(hardware=hardware(count=8, hosts=2), engine={"type": "vllm", "tensorParallel": 16}))
    assert "spec.hardware.hosts" in message(k8s, "Stalled", "True", "Unsupported")
    assert k8s.get("Deployment", NAME) is None


def test_pod_template_that_the_api_server_refuses_is_told_once(k8s: Kubernetes) -> None:
    k8s.apply(tier(podTemplate={"spec": {"dnsPolicy": "NoSuchPolicy"}}))
    assert "NoSuchPolicy" in message(k8s, "Stalled", "True", "Rejected")
    assert k8s.get("Service", NAME), "the other children are there"
    wait_one_event(k8s, "Rejected")
    k8s.apply(tier())
    wait_ready(k8s)


def test_misspelt_field_of_the_pod_template_is_not_dropped_in_silence(k8s: Kubernetes) -> None:
    k8s.apply(tier(podTemplate={"spec": {"terminationGracePeriodSecond": 5}}))
    assert "terminationGracePeriodSecond" in message(k8s, "Stalled", "True", "Rejected")


def test_stored_tier_that_todays_models_refuse_stalls_alone(k8s: Kubernetes, admin: Kubernetes) -> None:
    """An older CRD let it in; its children stay, nothing crashes, and other tiers go on."""
    apply_ready(k8s, tier(speed="old"))
    deployment = uid(k8s, "Deployment")
    shipped = yaml.safe_load(CRD.read_text(encoding="utf-8"))
    loose = yaml.safe_load(CRD.read_text(encoding="utf-8"))
    schema = loose["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    loose["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"replicas": schema["properties"]["replicas"]},
    }
    admin.list("Namespace")  # a read opens the connection again that the server closed while it was idle
    admin.apply(loose)
    try:
        broken = {
            "engine": {"type": "vllm", "maxModelLen": "very long"},
            "hardware": {"accelerator": "abacus"},
        }

        def accepted() -> bool:
            k8s.patch("InferenceTier", NAME, {"spec": broken})
            return True

        eventually(lambda: _attempt(accepted), "the loose CRD takes it")
    finally:
        admin.apply(shipped)
    words = message(k8s, "Stalled", "True", "InvalidSpec")
    assert "spec.engine.maxModelLen" in words
    assert "spec.hardware.accelerator" in words
    wait_condition(k8s, "Ready", "False", "InvalidSpec")
    assert uid(k8s, "Deployment") == deployment
    eventually(lambda: _attempt(lambda: bool(k8s.apply(tier("other")))), "the shipped CRD is back")
    wait_ready(k8s, "other")


def _attempt(act: Any) -> bool:
    from dev.cluster.api import ApiError

    try:
        return bool(act())
    except ApiError as error:
        raise AssertionError(str(error)) from error
