"""On real nodes load takes a tier from one replica to its maximum and back, through an operator's death and an outage of metrics.

One story, since each part needs the state that the one before it took minutes to reach. The objective holds at the top of
the ramp, no request is cut by a replica that goes, and a second tier beside it never moves.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.installation import (
    ENGINE_PORT,
    OPERATOR_USER,
    SYSTEM,
    Installation,
    Object,
    engine,
    pods,
    serves,
    tier,
)
from tests.e2e.load import Load, ReplicaHistory, running
from tests.support.kubernetes import Kubernetes, mutations
from tests.support.waiting import eventually, holds_for

MOST: Final = 3
FIRST_TOKEN, PER_TOKEN = 2.0, 0.2
ATTAINMENT: Final = 0.9
CALM, BUSY = 0.5, 7.0
"""Requests per second: one replica holds the first with ease, and not half of the second."""
TOKENS: Final = 20
LASTING: Final = 500
"""Tokens of an answer that lasts longer than it takes until a replica is told to go: half a minute."""
LONG: Final = 12_000
"""Tokens of the answer that lasts longer than the tier shrinks: ten minutes."""
GO_DARK: Final = "import os, signal; os.kill(1, signal.SIGUSR1)"
# One replica's limit is five requests a second. Half of the objective is left for a machine that has more to do.
SLOW = {"STEP_BASE_MS": "40", "STEP_PER_SEQUENCE_MS": "10", "START_SECONDS": "1"}


def auto(name: str) -> Object:
    """A tier in mode Auto, of an engine whose limits show at a few requests a second."""
    scaling = {
        "mode": "Auto",
        "minReplicas": 1,
        "maxReplicas": MOST,
        "objectives": {"timeToFirstToken": "2s", "timePerOutputToken": "200ms"},
        "attainment": str(ATTAINMENT),
        "coldStart": "10s",
        "scaleDown": {"stabilization": "20s"},
    }
    return tier(
        name,
        env=SLOW,
        engine=engine({"maxModelLen": 16384}, env=SLOW),
        scaling=scaling,
        rollout={"drainTimeout": "20s", "startupTimeout": "1m"},
    )


@pytest.fixture
def history(installation: Installation, serving: Kubernetes, tmp_path: Path) -> Iterator[ReplicaHistory]:
    """What both tiers were ever asked for."""
    found = ReplicaHistory(installation, serving.namespace, tmp_path / "replicas")
    yield found
    found.stop()


def asked(k8s: Kubernetes, name: str) -> int:
    """Replicas that the workload is asked for now."""
    return int(k8s.must_get("Deployment", name)["spec"]["replicas"])


def ready(k8s: Kubernetes, name: str) -> list[Object]:
    """The tier's pods that are ready, the oldest first."""
    found = [
        (each["lastTransitionTime"], pod)
        for pod in pods(k8s, name)
        for each in pod.get("status", {}).get("conditions", [])
        if (each["type"], each["status"]) == ("Ready", "True")
    ]
    return [pod for _, pod in sorted(found, key=lambda pair: (pair[0], pair[1]["metadata"]["name"]))]


def kill_operator(installation: Installation) -> None:
    """End the operator at once, as a node does that loses its power."""
    operator = installation.tools(SYSTEM)
    (killed,) = [pod["metadata"]["name"] for pod in operator.objects("pods")]
    operator.kubectl("delete", "pod", killed, "--force", "--grace-period=0")


def toggle_metrics(installation: Installation, k8s: Kubernetes, name: str) -> None:
    """Let the metrics of all of the tier's engines fail, or answer again."""
    for pod in ready(k8s, name):
        installation.cluster.execute(k8s, pod["metadata"]["name"], "python3", "-c", GO_DARK)


def marked(installation: Installation, k8s: Kubernetes) -> list[str]:
    """The pods on which the operator has ever written, in order."""
    return [
        str(each["objectRef"]["name"])
        for each in mutations(installation.audit_log, OPERATOR_USER)
        if each["objectRef"]["resource"] == "pods" and each["objectRef"].get("namespace") == k8s.namespace
    ]


def told(k8s: Kubernetes, name: str, reason: str) -> bool:
    """Whether ScalingActive has this reason."""
    condition: dict[str, Any] = k8s.condition(name, "ScalingActive")
    assert condition["reason"] == reason, (condition["reason"], condition["message"])
    return True


def attained(load: Load) -> float:
    """Share of the requests of ten seconds that kept the objectives; the last five seconds' may still be on their way."""
    until = time.time() - 5
    answers = [each for each in load.results() if until - 10 <= each.at < until]
    assert len(answers) >= 0.8 * 10 * BUSY, f"{len(answers)} requests were answered"
    return sum(each.meets(FIRST_TOKEN, PER_TOKEN) for each in answers) / len(answers)


def test_a_tier_follows_its_load_up_and_down_and_nothing_is_cut(
    installation: Installation, serving: Kubernetes, history: ReplicaHistory
) -> None:
    for name in ("ramp", "calm"):
        serving.apply(auto(name))
    ramp = Load(installation, serving, "ramp", tokens=TOKENS, most=3000)
    calm = Load(installation, serving, "calm", tokens=TOKENS, most=1000)
    for name, load in (("ramp", ramp), ("calm", calm)):
        serves(serving, name)
        load.wait_ready()
        load.rate(CALM)

    # Up, and the operator dies on the way.
    eventually(lambda: len(ramp.results()) >= 5, "the calm load is answered", 40)
    assert (asked(serving, "ramp"), ramp.errors()) == (1, [])
    ramp.rate(BUSY)
    eventually(lambda: asked(serving, "ramp") >= 2, "the load calls for a second replica", 90)
    at_death = asked(serving, "ramp")
    kill_operator(installation)
    eventually(lambda: len(ready(serving, "ramp")) == MOST, "all replicas that the tier may have", 120)
    so_far = history.of("ramp")
    assert so_far == sorted(so_far), "an operator that begins anew takes nothing away"
    assert at_death in so_far

    # The objective holds at the top, once what waited there has been answered.
    eventually(lambda: attained(ramp) >= ATTAINMENT, "the objective holds at the top", 60)
    assert asked(serving, "ramp") == MOST

    # The load ends while the metrics are out, but for one long answer by the youngest replica.
    busy = ready(serving, "ramp")[-1]
    name, address = busy["metadata"]["name"], busy["status"]["podIP"]
    long = Load(
        installation, serving, "ramp", tokens=LONG, most=1, name="long", address=f"{address}:{ENGINE_PORT}"
    )
    long.wait_ready()
    long.rate(1)
    toggle_metrics(installation, serving, "ramp")
    ramp.rate(0)
    eventually(lambda: told(serving, "ramp", "MetricsUnavailable"), "the outage is told", 60)
    holds_for(lambda: asked(serving, "ramp") == MOST, "nothing shrinks without metrics", 25)
    toggle_metrics(installation, serving, "ramp")

    # Down to one: the busy replica stays, though it is the youngest.
    eventually(lambda: asked(serving, "ramp") == 1, "the tier is back at its minimum", 300)
    eventually(lambda: len(pods(serving, "ramp")) == 1, "the others have gone", 60)
    assert [pod["metadata"]["name"] for pod in pods(serving, "ramp")] == [name]
    assert long.errors() == [], "the long answer goes on"
    assert ramp.errors() == [], "no request was cut"

    # The tier beside it.
    assert history.of("calm") == [1]
    assert calm.errors() == []
    touched = marked(installation, serving)
    assert len(touched) == len(set(touched)) == MOST - 1, "one write for each replica that goes"
    assert name not in touched


def test_a_busy_replica_that_goes_finishes_its_answers(
    installation: Installation, serving: Kubernetes
) -> None:
    rollout = {"drainTimeout": "2m", "startupTimeout": "1m"}
    serving.apply(tier("shrinks", env=SLOW, replicas=2, rollout=rollout))
    serves(serving, "shrinks")
    streams = []
    for number, pod in enumerate(ready(serving, "shrinks")):
        address = f"{pod['status']['podIP']}:{ENGINE_PORT}"
        load = Load(
            installation,
            serving,
            "shrinks",
            tokens=LASTING,
            most=1,
            name=f"stream-{number}",
            address=address,
        )
        load.wait_ready()
        load.rate(1)
        streams.append(load)
    both = [pod["metadata"]["name"] for pod in pods(serving, "shrinks")]
    for name in both:
        eventually(lambda name=name: running(installation, serving, name) == 1, f"{name} is busy", 20)  # type: ignore[misc]
    serving.patch("InferenceTier", "shrinks", {"spec": {"replicas": 1}})
    eventually(lambda: len(pods(serving, "shrinks")) == 1, "one of them is on its way out", 20)
    assert [each.results() for each in streams] == [[], []], "it goes while both still answer"
    for each in streams:
        (answer,) = eventually(each.results, f"the answer of {each.name}", 90)
        assert (answer.error, answer.tokens) == ("", LASTING)
    eventually(lambda: len(serving.list("Pod", "tierwright.dev/tier=shrinks")) == 1, "the other is gone", 60)
