"""A Job compiles before the pods of a spec start, where that takes nothing from them; however it ends, they start."""

from typing import Any

import pytest

from tests.support.tier_bundles import bundle_of, manifest, tier
from tierwright.api.conditions import Reason
from tierwright.api.tier import InferenceTier
from tierwright.desired.bundle import Bundle, BundleContext, CompileFacts, CompileStep, desired_bundle
from tierwright.desired.compile_step import recorded_outcome

ANNOTATION = "tierwright.dev/compile-cache"
SHARED = {"size": "20Gi", "accessMode": "ReadWriteMany", "sharing": "Shared"}
ONE_NODE = {"size": "20Gi", "accessMode": "ReadWriteOnce", "sharing": "Shared"}


def jax_tier(accelerator: str = "cpu", volume: dict[str, Any] | None = None, **spec: Any) -> InferenceTier:
    engine = {"type": "jax", **spec.pop("engine", {})}
    cache = {"compile": volume or SHARED}
    return tier(accelerator, engine=engine, cache=cache, **spec)


def bundle(wanted: InferenceTier, facts: CompileFacts | None) -> Bundle:
    found = desired_bundle(wanted, BundleContext(compile=facts))
    assert isinstance(found, Bundle)
    return found


def step(wanted: InferenceTier, facts: CompileFacts | None = None) -> CompileStep:
    found = bundle(wanted, facts).compile
    assert found is not None
    return found


def ended(wanted: InferenceTier, outcome: Reason | None, **facts: Any) -> CompileFacts:
    """The facts when the tier's Job is there; None: it runs."""
    return CompileFacts(jobs={step(wanted).job_name: outcome}, **facts)


def children(of: Bundle) -> dict[str, bool]:
    """Kind of each Job and Deployment → whether it is left alone."""
    return {
        child.manifest["kind"]: child.left_alone
        for child in of.children
        if child.manifest["kind"] in ("Job", "Deployment")
    }


def record(of: Bundle) -> str | None:
    annotations: dict[str, str] = manifest(of, "Deployment")["metadata"]["annotations"]
    return annotations.get(ANNOTATION)


@pytest.mark.parametrize(
    "wanted",
    [
        tier("nvidia", cache={"compile": SHARED}),
        tier("cpu", engine={"type": "jax"}),
        jax_tier(volume={"size": "20Gi", "sharing": "PerReplica"}),
    ],
    ids=["another engine", "no volume", "a volume of each pod"],
)
def test_no_job_fills_a_volume_that_no_pod_would_see(wanted: InferenceTier) -> None:
    made = bundle(wanted, CompileFacts())
    assert made.compile is None
    assert made.compile_job == ""
    assert children(made) == {"Deployment": False}
    assert record(made) is None


@pytest.mark.parametrize("accelerator", ["cpu", "nvidia", "neuron"])
def test_a_new_tier_compiles_once_before_its_pods_start(accelerator: str) -> None:
    """kaito#2325: 195 of 966 seconds to ready went into compiling, in every replica anew."""
    made = bundle(jax_tier(accelerator), CompileFacts())
    assert children(made) == {"Job": False, "Deployment": True}
    assert made.compile_job == manifest(made, "Job")["metadata"]["name"]


def test_pods_wait_while_the_job_runs() -> None:
    wanted = jax_tier()
    assert children(bundle(wanted, ended(wanted, None))) == {"Job": False, "Deployment": True}


@pytest.mark.parametrize("outcome", [Reason.COMPILED, Reason.COMPILE_FAILED, Reason.COMPILE_TIMEOUT])
def test_however_the_job_ends_the_pods_start(outcome: Reason) -> None:
    """aws-neuron-sdk#1369: a compiler that fails at random must not keep a tier from serving."""
    wanted = jax_tier()
    made = bundle(wanted, ended(wanted, outcome))
    assert children(made) == {"Job": True, "Deployment": False}
    assert recorded_outcome(record(made), step(wanted).key) is outcome


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Reason.COMPILED, {"Deployment": False}),
        (Reason.COMPILE_FAILED, {"Job": True, "Deployment": False}),
    ],
)
def test_a_job_that_succeeded_goes_at_once_and_one_that_failed_stays_to_be_looked_into(
    outcome: Reason, expected: dict[str, bool]
) -> None:
    """modelplane#140: a finished Job's pod pins the volume's claim for ever."""
    wanted = jax_tier()
    known = record(bundle(wanted, ended(wanted, outcome)))
    assert children(bundle(wanted, ended(wanted, outcome, record=known))) == expected


@pytest.mark.parametrize("outcome", [Reason.COMPILED, Reason.COMPILE_FAILED, Reason.COMPILES_AT_START])
def test_what_came_of_compiling_is_remembered_when_the_job_is_gone(outcome: Reason) -> None:
    wanted = jax_tier()
    known = f"{step(wanted).key} {outcome}"
    made = bundle(wanted, CompileFacts(record=known, has_pods=True))
    assert children(made) == {"Deployment": False}
    assert record(made) == known


def test_a_spec_that_needs_other_programs_compiles_while_the_former_pods_serve() -> None:
    old, new = jax_tier(), jax_tier(engine={"maxModelLen": 4096})
    facts = CompileFacts(record=f"{step(old).key} Compiled", has_pods=True)
    assert children(bundle(new, facts)) == {"Job": False, "Deployment": True}
    assert step(old).job_name != step(new).job_name


@pytest.mark.parametrize(
    ("accelerator", "volume"),
    [("nvidia", SHARED), ("neuron", SHARED), ("cpu", ONE_NODE)],
    ids=["GPUs", "Neuron devices", "a volume of one node"],
)
def test_a_job_never_takes_from_pods_what_they_hold(accelerator: str, volume: dict[str, Any]) -> None:
    """Accelerator pools have no spare device: such a Job would wait for pods that wait for it."""
    wanted = jax_tier(accelerator, volume)
    made = bundle(wanted, CompileFacts(record="other Compiled", has_pods=True))
    assert children(made) == {"Deployment": False}
    assert recorded_outcome(record(made), step(wanted).key) is Reason.COMPILES_AT_START
    assert children(bundle(wanted, CompileFacts())) == {"Job": False, "Deployment": True}


def test_a_job_that_the_api_server_refuses_is_not_waited_for() -> None:
    """A quota of Jobs, a policy, or a role of an older release must not keep a tier from serving."""
    wanted = jax_tier()
    refused = {step(wanted).job_name: "exceeded quota"}
    made = bundle(wanted, CompileFacts(refused=refused))
    assert children(made) == {"Deployment": False}
    assert not made.waits
    assert recorded_outcome(record(made), step(wanted).key) is Reason.COMPILE_FAILED
    later = bundle(wanted, CompileFacts(record=record(made), refused=refused, has_pods=True))
    assert children(later) == {"Deployment": False}
    assert later.compile is not None
    assert later.compile.refusal == "exceeded quota"
    assert bundle(wanted, CompileFacts(refused={"other": "x"})).waits


def test_a_suspended_tier_compiles_nothing() -> None:
    wanted = jax_tier(suspend=True)
    assert children(bundle(wanted, CompileFacts())) == {"Deployment": False}


def test_a_tier_at_zero_compiles_so_that_its_first_pod_starts_fast() -> None:
    assert children(bundle(jax_tier(replicas=0), CompileFacts())) == {"Job": False, "Deployment": True}


def test_who_only_looks_sees_the_job_and_the_deployment() -> None:
    made = bundle_of(jax_tier())
    assert children(made) == {"Job": False, "Deployment": False}
    assert recorded_outcome(record(made), step(jax_tier()).key) is Reason.COMPILED


@pytest.mark.parametrize("text", [None, "", "abc", "abc Nonsense", "other Compiled", "abc  Compiled"])
def test_a_record_that_says_nothing_about_these_programs_is_none(text: str | None) -> None:
    assert recorded_outcome(text, "abc") is None
