"""A Job fills the shared compile volume before pods start; it serves nobody, ends, pins nothing, and stops no tier."""

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.live import (
    BEHAVIOUR,
    NAME,
    Object,
    apply_ready,
    events,
    tier,
    wait_condition,
    wait_one_event,
    wait_ready,
)
from tests.support.activity import wait_resyncs, writes
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually, holds_for
from tierwright.api.tier import InferenceTier
from tierwright.desired.bundle import Bundle, BundleContext, desired_bundle

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster
    from tests.support.operator_process import OperatorProcess

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("operator")]

CPU: Object = {"accelerator": "cpu", "nodePool": {"matchLabels": {"karpenter.sh/nodepool": "cpu"}}}
GPU: Object = {**tier()["spec"]["hardware"]}
JOB_OF = "batch.kubernetes.io/job-name"


def jax_tier(engine: Object | None = None, hardware: Object | None = None, **spec: Any) -> Object:
    """A tier of the JAX worker with a compile volume that all its pods share."""
    volume = {"size": "1Gi", "storageClassName": "shared", "accessMode": "ReadWriteMany", "sharing": "Shared"}
    return tier(
        model={"name": "meta/llama", "source": "file:///models/llama"},
        engine={"type": "jax", "image": "worker:0.1.0-cpu", **(engine or {})},
        hardware=hardware or CPU,
        cache={"compile": volume},
        **spec,
    )


def behaving(**annotations: str) -> Object:
    """A podTemplate of which the Job's pods and the tier's are made alike."""
    keys = {name: BEHAVIOUR.rpartition("/")[0] + "/" + name.replace("_", "-") for name in annotations}
    return {"metadata": {"annotations": {keys[name]: value for name, value in annotations.items()}}}


def jobs(k8s: Kubernetes) -> list[Object]:
    return k8s.list("Job", f"tierwright.dev/tier={NAME}")


def the_job(k8s: Kubernetes) -> Object:
    """The one Job, as soon as it is there."""
    found = eventually(lambda: jobs(k8s), "a Job")
    assert len(found) == 1
    return found[0]


def job_pods(k8s: Kubernetes) -> list[Object]:
    return [pod for pod in k8s.list("Pod") if JOB_OF in pod["metadata"].get("labels", {})]


def hold(k8s: Kubernetes, manifest: Object) -> Object:
    """Apply a tier whose Job's pods run until ``release`` is called."""
    k8s.apply({**manifest, "spec": {**manifest["spec"], "podTemplate": behaving(behaviour="never-ready")}})
    return the_job(k8s)


def finish(k8s: Kubernetes, job: str) -> None:
    """The Job's pod ends well."""

    def done() -> bool:
        for pod in job_pods(k8s):
            if pod["metadata"]["labels"][JOB_OF] == job:
                annotations = {BEHAVIOUR: None}
                k8s.patch("Pod", pod["metadata"]["name"], {"metadata": {"annotations": annotations}})
                return True
        return False

    eventually(done, f"a pod of Job {job}")


def arguments(k8s: Kubernetes) -> list[str]:
    """The arguments in the Deployment's template."""
    template = k8s.must_get("Deployment", NAME)["spec"]["template"]["spec"]
    return list(template["containers"][0]["args"])


def test_the_volume_is_filled_before_any_pod_starts_and_the_job_goes(
    k8s: Kubernetes, cluster: "Cluster", operator: "OperatorProcess"
) -> None:
    """dynamo#10695, llm-d#2216: a persistent compile cache was mounted, and every start compiled all the same."""
    job = hold(k8s, jax_tier())["metadata"]["name"]
    said = wait_condition(k8s, "CompileCacheReady", "False", "Compiling")
    assert job in said["message"]
    wait_condition(k8s, "Reconciling", "True", "Applying")
    eventually(lambda: job_pods(k8s), "the Job's pod")
    holds_for(lambda: k8s.get("Deployment", NAME) is None, "the pods wait for the Job", seconds=2)
    wait_resyncs(operator, 1)
    before = len(writes(cluster.audit_log, operator.user, k8s.namespace))
    wait_resyncs(operator, 3)
    assert writes(cluster.audit_log, operator.user, k8s.namespace)[before:] == [], "to wait costs nothing"
    assert k8s.list("Pod", f"tierwright.dev/tier={NAME}") == [], "no Service finds its pod"

    finish(k8s, job)
    eventually(lambda: k8s.get("Deployment", NAME), "the pods start when the Job has ended")
    k8s.apply(jax_tier())
    wait_ready(k8s)
    assert " took " in wait_condition(k8s, "CompileCacheReady", "True", "Compiled")["message"]
    eventually(lambda: not jobs(k8s) and not job_pods(k8s), "the Job and its pods are gone")

    wait_resyncs(operator, 1)
    before = len(writes(cluster.audit_log, operator.user, k8s.namespace))
    wait_resyncs(operator, 10)
    assert writes(cluster.audit_log, operator.user, k8s.namespace)[before:] == []


def test_pods_of_the_former_spec_serve_while_the_programs_of_the_next_one_are_compiled(
    k8s: Kubernetes,
) -> None:
    apply_ready(k8s, jax_tier())
    former = {pod["metadata"]["uid"] for pod in k8s.list("Pod", f"tierwright.dev/tier={NAME}")}
    job = hold(k8s, jax_tier(engine={"maxModelLen": 4096}))["metadata"]["name"]
    wait_condition(k8s, "CompileCacheReady", "False", "Compiling")
    holds_for(
        lambda: "--max-model-len" not in arguments(k8s) and k8s.condition(NAME, "Ready")["status"] == "True",
        "the former pods serve",
        seconds=2,
    )
    assert {pod["metadata"]["uid"] for pod in k8s.list("Pod", f"tierwright.dev/tier={NAME}")} == former
    k8s.patch("InferenceTier", NAME, {"spec": {"replicas": 2}})
    eventually(
        lambda: len(k8s.list("Pod", f"tierwright.dev/tier={NAME}")) == 2, "who waits can still be scaled"
    )
    finish(k8s, job)
    eventually(lambda: "--max-model-len" in arguments(k8s), "the next spec is rolled out")
    k8s.apply(jax_tier(engine={"maxModelLen": 4096}, replicas=2))
    wait_ready(k8s)
    wait_condition(k8s, "CompileCacheReady", "True", "Compiled")


def test_an_edit_while_it_compiles_ends_the_job_of_the_former_edit(k8s: Kubernetes) -> None:
    first = hold(k8s, jax_tier())["metadata"]["name"]
    k8s.apply({**jax_tier(engine={"maxModelLen": 4096}), "metadata": {"name": NAME}})

    def only_the_second() -> bool:
        names = [job["metadata"]["name"] for job in jobs(k8s)]
        return len(names) == 1 and first not in names

    eventually(only_the_second, "one Job, for the present spec")
    wait_ready(k8s)


def test_a_model_that_cannot_be_compiled_fails_once_with_its_last_words_and_the_pods_start(
    k8s: Kubernetes,
) -> None:
    """aws-neuron-sdk#1369: compiling failed, and all that could be seen was a pod that crashes for ever."""
    words = "tierwright-worker: length buckets [100]: each must be a multiple of 128"
    template = behaving(behaviour="crash-loop", exit_code="64", message=words)
    k8s.apply(jax_tier(podTemplate=template))
    said = wait_condition(k8s, "CompileCacheReady", "False", "CompileFailed")
    assert words in said["message"]
    assert "exit code 64" in said["message"]
    assert len(job_pods(k8s)) == 1, "settings that no retry can change are not tried again"
    wait_one_event(k8s, "CompileFailed")
    eventually(lambda: k8s.get("Deployment", NAME), "the pods start all the same")
    assert jobs(k8s), "a Job that failed stays to be looked into"

    k8s.apply(jax_tier())
    wait_ready(k8s)
    wait_condition(k8s, "CompileCacheReady", "True", "Compiled")
    assert len(events(k8s, "CompileFailed")) == 1


def test_a_compiler_that_fails_at_random_is_tried_three_times(k8s: Kubernetes) -> None:
    k8s.apply(jax_tier(podTemplate=behaving(behaviour="crash-loop", message="[NCC_EXTP004] internal error")))

    def told() -> bool:
        found = k8s.condition(NAME, "CompileCacheReady")
        return found["reason"] == "Compiling" and "try 2 of 3" in found["message"]

    eventually(told, "the second try is told with the words of the first")
    said = wait_condition(k8s, "CompileCacheReady", "False", "CompileFailed", deadline_s=120)
    assert "NCC_EXTP004" in said["message"]
    assert len(job_pods(k8s)) == 3


def test_a_job_past_its_deadline_is_given_up_with_what_held_it_up(k8s: Kubernetes) -> None:
    """kubeai#172: a budget that nobody could change. The deadline follows from startupTimeout."""
    pool = {"matchLabels": {"karpenter.sh/nodepool": "no-such"}}
    k8s.apply(jax_tier(hardware={"accelerator": "cpu", "nodePool": pool}, rollout={"startupTimeout": "20m"}))
    job = the_job(k8s)
    assert job["spec"]["activeDeadlineSeconds"] == 20 * 60 + 600
    wait_condition(k8s, "Ready", "False", "NodePoolEmpty")
    k8s.patch("Job", job["metadata"]["name"], {"spec": {"activeDeadlineSeconds": 1}})
    said = wait_condition(k8s, "CompileCacheReady", "False", "CompileTimeout")
    assert "node" in said["message"]
    eventually(lambda: k8s.get("Deployment", NAME), "the pods start all the same")


@pytest.mark.parametrize("ended", [False, True], ids=["running", "failed"])
def test_neither_job_nor_claim_outlives_the_tier(k8s: Kubernetes, ended: bool) -> None:
    """modelplane#140: a finished job's pod pinned the claim, which was Terminating for ever."""
    if ended:
        k8s.apply(jax_tier(podTemplate=behaving(behaviour="crash-loop", exit_code="64")))
        wait_condition(k8s, "CompileCacheReady", "False", "CompileFailed")
    else:
        hold(k8s, jax_tier())
        eventually(lambda: job_pods(k8s), "the Job's pod")
    k8s.delete("InferenceTier", NAME)

    def gone() -> bool:
        return not (jobs(k8s) or k8s.list("Pod") or k8s.list("PersistentVolumeClaim"))

    eventually(gone, "Job, pods and claim are gone", deadline_s=90)


def test_no_job_waits_for_devices_that_the_tiers_own_pods_hold(k8s: Kubernetes) -> None:
    manifest = jax_tier(engine={"image": "worker:0.1.0-cuda"}, hardware=GPU)
    apply_ready(k8s, manifest)
    k8s.apply(jax_tier(engine={"image": "worker:0.1.0-cuda", "maxModelLen": 4096}, hardware=GPU))
    eventually(lambda: "--max-model-len" in arguments(k8s), "the rollout goes on at once")
    assert jobs(k8s) == []
    wait_ready(k8s)
    wait_condition(k8s, "CompileCacheReady", "True", "Compiled")


def test_what_keeps_the_job_from_running_is_why_the_tier_is_not_ready(k8s: Kubernetes) -> None:
    k8s.apply(jax_tier(podTemplate=behaving(behaviour="image-pull-failure")))
    said = wait_condition(k8s, "Ready", "False", "ImagePullFailed")
    assert "worker:0.1.0-cpu" in said["message"]
    assert "worker:0.1.0-cpu" in wait_condition(k8s, "CompileCacheReady", "False", "Compiling")["message"]


def test_a_quota_that_refuses_the_jobs_pods_is_told(k8s: Kubernetes) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
    k8s.create({**quota, "spec": {"hard": {"pods": "0"}}})
    k8s.apply(jax_tier())
    assert "exceeded quota" in wait_condition(k8s, "Ready", "False", "QuotaExceeded")["message"]
    k8s.delete("ResourceQuota", "none")
    wait_condition(k8s, "Ready", "True", deadline_s=120)


def test_a_tier_serves_where_no_jobs_are_allowed(k8s: Kubernetes, operator: "OperatorProcess") -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "no-jobs"}}
    k8s.create({**quota, "spec": {"hard": {"count/jobs.batch": "0"}}})

    def enforced() -> bool:
        return "hard" in k8s.must_get("ResourceQuota", "no-jobs").get("status", {})

    eventually(enforced, "the quota is enforced")
    k8s.apply(jax_tier(podTemplate=behaving(behaviour="never-ready")))
    said = wait_condition(k8s, "CompileCacheReady", "False", "CompileFailed")
    assert "exceeded quota" in said["message"]
    wait_resyncs(operator, 2)
    assert "exceeded quota" in k8s.condition(NAME, "CompileCacheReady")["message"]
    k8s.apply(jax_tier())
    wait_ready(k8s)
    wait_condition(k8s, "CompileCacheReady", "True", "Compiled")


def test_a_job_of_somebody_else_is_never_touched(k8s: Kubernetes) -> None:
    wanted = InferenceTier.model_validate(
        {**jax_tier(), "metadata": {"name": NAME, "namespace": k8s.namespace}}
    )
    bundle = desired_bundle(wanted, BundleContext())
    assert isinstance(bundle, Bundle)
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "own", "image": "own:1"}]}}
    own = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": bundle.compile_job},
        "spec": {"suspend": True, "template": template},
    }
    before = k8s.create(own)
    k8s.apply(jax_tier())
    said = wait_condition(k8s, "Stalled", "True", "Conflict")
    assert bundle.compile_job in said["message"]
    after = k8s.must_get("Job", bundle.compile_job)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"] == before["spec"]
    k8s.delete("Job", bundle.compile_job)
    wait_ready(k8s)
