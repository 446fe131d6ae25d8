"""What real kubelets say about pods that do not serve reaches the tier's status, with the words a person needs."""

from collections.abc import Iterator
from itertools import groupby

import pytest

from tests.e2e.installation import (
    Installation,
    Readiness,
    applied,
    engine,
    patched_engine,
    pods,
    serves,
    tier,
    told,
)
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually

ALLOCATE = "block = bytearray(512 << 20); import time; time.sleep(600)"
QUICK_LIVENESS = {
    "livenessProbe": {"periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 2},
    "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
}


def from_secret(name: str) -> dict[str, object]:
    """An environment variable out of a Secret."""
    return {"name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": {"name": name, "key": "key"}}}


def from_config_map(name: str) -> dict[str, object]:
    """An environment variable out of a ConfigMap."""
    return {
        "name": "ENGINE_SIM_START_SECONDS",
        "valueFrom": {"configMapKeyRef": {"name": name, "key": "seconds"}},
    }


TIERS = [
    tier("no-secret", engine=engine({"env": [from_secret("engine-key")]})),
    tier("no-config-map", engine=engine({"env": [from_config_map("engine-settings")]})),
    tier("no-pull-secret", pod={"imagePullSecrets": [{"name": "nowhere"}]}),
    tier("crashes", env={"EXIT_AT_START": "42"}),
    tier("hangs", env={"HANG_AT_START": "true"}, rollout={"startupTimeout": "10s", "drainTimeout": "1s"}),
    tier("dies", env={"UNHEALTHY_AFTER_SECONDS": "15"}, podTemplate=patched_engine(**QUICK_LIVENESS)),
    tier("no-image", engine=engine({"image": "localhost/tierwright/no-such-engine:1.2.3"})),
    tier("eats-memory", podTemplate=patched_engine(command=["python3", "-c", ALLOCATE])),
    tier("fetches", model={"name": "models/fetches", "source": "hf://owner/model@main"}),
]


@pytest.fixture(scope="module", autouse=True)
def readiness(
    installation: Installation, serving: Kubernetes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Readiness]:
    """All tiers of this module at once, and a watch of what their Ready conditions have been."""
    watch = Readiness(installation, serving.namespace, tmp_path_factory.mktemp("watch") / "ready")
    try:
        applied(serving, TIERS)
        yield watch
    finally:
        watch.stop()


def test_a_missing_secret_is_named_and_its_creation_heals_the_tier(serving: Kubernetes) -> None:
    assert 'secret "engine-key" not found' in told(serving, "no-secret", "SecretMissing")
    generation = serving.must_get("InferenceTier", "no-secret")["metadata"]["generation"]
    serving.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "engine-key"},
            "stringData": {"other": "nothing"},
        }
    )

    def missing_key() -> bool:
        return "couldn't find key key in Secret" in told(serving, "no-secret", "SecretMissing")

    eventually(missing_key, "the key that the Secret lacks", 60)
    serving.patch("Secret", "engine-key", {"stringData": {"key": "let-me-in"}})
    serves(serving, "no-secret")
    assert serving.must_get("InferenceTier", "no-secret")["metadata"]["generation"] == generation


def test_a_missing_config_map_is_named_and_its_creation_heals_the_tier(serving: Kubernetes) -> None:
    assert 'configmap "engine-settings" not found' in told(serving, "no-config-map", "ConfigMapMissing")
    serving.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "engine-settings"},
            "data": {"seconds": "0"},
        }
    )
    serves(serving, "no-config-map")


def test_a_pull_secret_that_is_missing_harms_no_image_that_is_there(serving: Kubernetes) -> None:
    serves(serving, "no-pull-secret")


def test_an_engine_that_ends_is_told_with_its_exit_code_and_last_words(serving: Kubernetes) -> None:
    words = told(serving, "crashes", "EngineCrashed")
    assert "exit code 42" in words
    assert "engine core initialization failed" in words
    assert serving.condition("crashes", "Ready")["status"] == "False"


def test_a_crash_loop_is_never_ready(serving: Kubernetes, readiness: Readiness) -> None:
    def restarts() -> int:
        counts = [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods(serving, "crashes")]
        return max(counts, default=0)

    eventually(lambda: restarts() >= 2, "two restarts", 90)
    statuses = readiness.of("crashes")
    assert statuses.count("False") >= 2
    assert "True" not in statuses
    words = told(serving, "crashes", "EngineCrashed")
    assert "restarts" in words


def test_an_engine_that_hangs_at_its_start_is_told_as_such_in_the_seconds_it_had(serving: Kubernetes) -> None:
    assert "was not ready in time" in told(serving, "hangs", "StartupTimeout")


def test_a_dead_engine_is_restarted_and_the_status_shows_it(
    serving: Kubernetes, readiness: Readiness
) -> None:
    words = told(serving, "dies", "EngineCrashed")
    assert "failed liveness probe" in words
    assert "restart" in words

    def turns() -> bool:
        seen = [status for status, _ in groupby(readiness.of("dies"))]
        return seen[seen.index("True") :][:3] == ["True", "False", "True"] if "True" in seen else False

    eventually(turns, "ready, not ready and ready again", 120)


def test_an_image_that_does_not_exist_is_told_in_the_kubelets_words(serving: Kubernetes) -> None:
    words = told(serving, "no-image", "ImagePullFailed")
    assert "localhost/tierwright/no-such-engine:1.2.3" in words
    assert "failed to pull" in words


def test_a_container_that_the_kernel_killed_for_its_memory_is_told(serving: Kubernetes) -> None:
    words = told(serving, "eats-memory", "OutOfMemory")
    assert "hardware.resources.memory" in words


def test_weights_that_cannot_be_fetched_are_told_with_what_to_do(serving: Kubernetes) -> None:
    words = told(serving, "fetches", "DownloadFailed")
    assert "fetch-weights" in words
    assert "huggingface_hub" in words
    assert "pvc://" in words


def test_every_cause_is_an_event_that_describe_shows(installation: Installation, serving: Kubernetes) -> None:
    told(serving, "no-image", "ImagePullFailed")
    said = installation.tools(serving.namespace).kubectl("describe", "itier", "no-image")
    rows = [line.split() for line in said.splitlines()]
    assert "ImagePullFailed" in {words[1] for words in rows if words[:1] == ["Warning"]}, said
