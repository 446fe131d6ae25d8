"""The store under late, repeated, missing and disordered news: it ends up equal to the cluster."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tierwright.desired.labels import TIER_LABEL
from tierwright.kube.resources import (
    DEPLOYMENT,
    HPA,
    POD,
    PVC,
    SERVICE,
    Object,
    ObjectRef,
    ResourceKind,
)
from tierwright.observe.slim import slim
from tierwright.observe.store import Store

TIER = ResourceKind("tierwright.dev", "v1alpha1", "InferenceTier", "inferencetiers")
NS = "serving"


def label_value(name: str) -> str:
    return name if len(name) <= 20 else f"{name[:10]}-hash"


def store() -> Store:
    return Store(TIER, label_value, TIER_LABEL)


def tier(name: str, version: int, speed: str = "fast", **fields: Any) -> Object:
    return {
        "apiVersion": TIER.api_version,
        "kind": TIER.kind,
        "metadata": {"namespace": NS, "name": name, "resourceVersion": str(version)},
        "spec": {"model": {"name": "m"}, "speed": speed},
        **fields,
    }


def child(name: str, version: int, of: str, **fields: Any) -> Object:
    return {
        "metadata": {
            "namespace": NS,
            "name": name,
            "resourceVersion": str(version),
            "labels": {"tierwright.dev/tier": label_value(of)},
        },
        "spec": {},
        **fields,
    }


def test_a_child_wakes_the_tier_of_its_label() -> None:
    held = store()
    assert held.put(TIER, tier("a", 1)) == {(NS, "a")}
    assert held.put(SERVICE, child("a", 2, of="a")) == {(NS, "a")}
    assert held.put(POD, child("a-xyz", 3, of="a")) == {(NS, "a")}
    assert [each["metadata"]["name"] for each in held.children_of(NS, "a")] == ["a"]
    assert [each["metadata"]["name"] for each in held.pods_of(NS, "a")] == ["a-xyz"]


def test_a_long_name_is_found_through_its_shortened_label() -> None:
    held, name = store(), "a-name-that-is-much-longer-than-a-label"
    held.put(TIER, tier(name, 1))
    assert held.put(POD, child("p", 2, of=name)) == {(NS, name)}
    assert len(held.pods_of(NS, name)) == 1


def test_a_child_without_label_wakes_its_owner() -> None:
    held = store()
    owned = child("a", 2, of="a")
    del owned["metadata"]["labels"]
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": TIER.api_version, "kind": TIER.kind, "name": "a", "uid": "u"}
    ]
    assert held.put(SERVICE, owned) == {(NS, "a")}


def test_a_moved_label_wakes_the_old_and_the_new_tier() -> None:
    held = store()
    held.put(TIER, tier("a", 1))
    held.put(TIER, tier("b", 2, speed="slow"))
    held.put(SERVICE, child("s", 3, of="a"))
    assert held.put(SERVICE, child("s", 4, of="b")) == {(NS, "a"), (NS, "b")}
    assert held.children_of(NS, "a") == []


def test_rivals_for_one_speed_wake_each_other() -> None:
    held = store()
    held.put(TIER, tier("old", 1))
    assert held.put(TIER, tier("young", 2)) == {(NS, "old"), (NS, "young")}
    assert held.delete(TIER, tier("old", 3)) == {(NS, "old"), (NS, "young")}
    assert held.same_speed(NS, "m", "fast") == [held.tier(NS, "young")]


def test_a_tier_that_todays_schema_would_refuse_is_held_all_the_same() -> None:
    held = store()
    specs: list[Any] = [None, [], "text", {"model": "text"}, {"model": None, "speed": 7}]
    for number, spec in enumerate(specs):
        broken = tier(f"broken-{number}", number + 1)
        broken["spec"] = spec
        assert (NS, f"broken-{number}") in held.put(TIER, broken)


def test_our_own_report_on_a_tier_wakes_nobody_when_the_watch_repeats_it() -> None:
    held = store()
    held.put(TIER, tier("a", 1))
    answer = tier("a", 2, status={"conditions": []})
    held.put(TIER, answer)
    assert held.put(TIER, answer) == set()


def test_a_status_that_somebody_else_wrote_wakes_the_tier_and_its_rivals() -> None:
    held = store()
    held.put(TIER, tier("a", 1))
    held.put(TIER, tier("b", 2))
    assert held.put(TIER, tier("a", 3, status={"ready": "9/9"})) == {(NS, "a"), (NS, "b")}


def test_a_change_of_the_version_alone_wakes_nobody() -> None:
    held = store()
    held.put(TIER, tier("a", 1))
    held.put(SERVICE, child("s", 2, of="a"))
    assert held.put(SERVICE, child("s", 3, of="a")) == set()


def test_an_older_state_never_replaces_a_newer_one() -> None:
    held = store()
    held.put(TIER, tier("a", 1))
    held.put(SERVICE, child("s", 10, of="a", spec={"n": "new"}))
    assert held.put(SERVICE, child("s", 9, of="a", spec={"n": "old"})) == set()
    assert held.put(SERVICE, child("s", 10, of="a", spec={"n": "new"})) == set()
    found = held.get(ObjectRef(SERVICE, NS, "s"))
    assert found is not None
    assert found["spec"] == {"n": "new"}


def test_versions_are_compared_as_numbers() -> None:
    held = store()
    held.put(TIER, tier("a", 1))
    held.put(SERVICE, child("s", 9, of="a"))
    assert held.put(SERVICE, child("s", 10, of="a", spec={"n": 1})) == {(NS, "a")}


def test_a_late_event_does_not_bring_a_deleted_object_back() -> None:
    held = store()
    held.put(TIER, tier("a", 1))
    held.put(SERVICE, child("s", 5, of="a"))
    assert held.delete(SERVICE, child("s", 7, of="a")) == {(NS, "a")}
    assert held.put(SERVICE, child("s", 6, of="a")) == set()
    assert held.get(ObjectRef(SERVICE, NS, "s")) is None
    assert held.put(SERVICE, child("s", 8, of="a")) == {(NS, "a")}, "created anew under the same name"


def test_a_late_deletion_does_not_remove_the_successor() -> None:
    held = store()
    held.put(TIER, tier("a", 1))
    held.put(SERVICE, child("s", 8, of="a"))
    assert held.delete(SERVICE, child("s", 7, of="a")) == set()
    assert held.get(ObjectRef(SERVICE, NS, "s")) is not None


def test_a_list_drops_ghosts_and_wakes_their_tiers() -> None:
    held = store()
    held.put(TIER, tier("a", 1))
    held.put(SERVICE, child("s", 2, of="a"))
    held.put(SERVICE, child("t", 3, of="a"))
    mark = held.mark()
    assert held.replace_all(SERVICE, [child("t", 3, of="a")], mark=mark) == {(NS, "a")}
    assert [each["metadata"]["name"] for each in held.children_of(NS, "a")] == ["t"]
    assert held.replace_all(SERVICE, [child("t", 3, of="a")], mark=held.mark()) == set()


def test_a_list_of_one_namespace_leaves_the_others_alone() -> None:
    held = store()
    held.put(TIER, tier("a", 1))
    held.put(SERVICE, child("s", 2, of="a"))
    assert held.replace_all(SERVICE, [], mark=held.mark(), namespace="other") == set()
    assert held.get(ObjectRef(SERVICE, NS, "s")) is not None


def test_what_is_learned_while_a_list_is_read_outlives_it() -> None:
    held = store()
    held.put(TIER, tier("a", 1))
    held.put(SERVICE, child("gone", 2, of="a"))
    held.put(SERVICE, child("edited", 3, of="a"))
    mark = held.mark()
    listed = [child("gone", 2, of="a"), child("edited", 3, of="a")]
    held.put(SERVICE, child("new", 10, of="a"))
    held.put(SERVICE, child("edited", 11, of="a", spec={"n": 1}))
    held.delete(SERVICE, child("gone", 12, of="a"))
    assert held.replace_all(SERVICE, listed, mark=mark) == set()
    assert held.get(ObjectRef(SERVICE, NS, "gone")) is None
    assert held.get(ObjectRef(SERVICE, NS, "new")) is not None
    edited = held.get(ObjectRef(SERVICE, NS, "edited"))
    assert edited is not None
    assert edited["spec"] == {"n": 1}


def test_a_server_restored_from_a_backup_counts_from_an_older_version_and_is_believed() -> None:
    held = store()
    held.put(TIER, tier("a", 1000))
    held.put(SERVICE, child("s", 1001, of="a", spec={"n": "after the backup"}))
    held.put(SERVICE, child("later", 1002, of="a"))
    mark = held.mark()
    assert held.replace_all(SERVICE, [child("s", 500, of="a", spec={"n": "backup"})], mark=mark) == {
        (NS, "a")
    }
    found = held.get(ObjectRef(SERVICE, NS, "s"))
    assert found is not None
    assert found["spec"] == {"n": "backup"}
    assert held.get(ObjectRef(SERVICE, NS, "later")) is None
    assert held.put(SERVICE, child("s", 501, of="a", spec={"n": "next"})) == {(NS, "a")}


def test_an_autoscaler_wakes_the_tier_that_it_scales_either_way() -> None:
    held = store()
    held.put(TIER, tier("a", 1))
    held.put(DEPLOYMENT, child("a-workload", 2, of="a"))

    def hpa(name: str, kind: str, target: str) -> Object:
        return {
            "metadata": {"namespace": NS, "name": name, "resourceVersion": "9"},
            "spec": {"scaleTargetRef": {"kind": kind, "name": target}, "maxReplicas": 3},
            "status": {"currentReplicas": 1},
        }

    assert held.put(HPA, hpa("x", TIER.kind, "a")) == {(NS, "a")}
    assert held.put(HPA, hpa("y", "Deployment", "a-workload")) == {(NS, "a")}
    assert held.put(HPA, hpa("z", "Deployment", "not-ours")) == set()
    assert [each["metadata"]["name"] for each in held.all_of(HPA, NS)] == ["x", "y", "z"]


def test_pods_are_slimmed_and_the_owner_of_replicas_stays_readable() -> None:
    held = store()
    pod = child(
        "p",
        1,
        of="a",
        spec={
            "nodeName": "n1",
            "containers": [{"name": "engine", "image": "i", "env": [{"name": "X", "value": "y" * 4000}]}],
            "volumes": [
                {"name": "w", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "tmp", "emptyDir": {}},
            ],
        },
        status={"phase": "Running"},
    )
    pod["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    held.put(POD, pod)
    kept = held.pods_of(NS, "a")[0]
    assert kept["spec"]["containers"] == [{"name": "engine", "image": "i"}]
    assert kept["spec"]["volumes"] == [{"name": "w", "persistentVolumeClaim": {"claimName": "c"}}]
    assert kept["spec"]["nodeName"] == "n1"
    assert kept["status"] == {"phase": "Running"}
    assert "managedFields" not in kept["metadata"]
    assert "env" in pod["spec"]["containers"][0], "the event itself is not changed"

    workload = child("d", 2, of="a", spec={"replicas": 2})
    workload["metadata"]["managedFields"] = [
        {
            "manager": "tierwright-scaler",
            "operation": "Apply",
            "fieldsV1": {"f:spec": {"f:replicas": {}, "f:x": {}}},
        },
        {"manager": "tierwright", "operation": "Apply", "fieldsV1": {"f:spec": {"f:template": {}}}},
    ]
    held.put(DEPLOYMENT, workload)
    kept = held.children_of(NS, "a", DEPLOYMENT)[0]
    assert [each["manager"] for each in kept["metadata"]["managedFields"]] == ["tierwright-scaler"]


Change = tuple[str, int]


@settings(max_examples=200)
@given(
    history=st.lists(
        st.tuples(st.sampled_from(["put", "delete"]), st.integers(0, 2)), min_size=1, max_size=12
    ),
    order=st.randoms(use_true_random=False),
    lost=st.sets(st.integers(0, 11)),
    list_at=st.integers(0, 12),
)
def test_any_order_and_loss_of_events_ends_equal_to_the_cluster_after_a_list(
    history: list[Change], order: Any, lost: set[int], list_at: int
) -> None:
    cluster: dict[str, Object] = {}
    events: list[tuple[str, Object]] = []
    for version, (action, number) in enumerate(history, start=1):
        name = f"s{number}"
        state = child(name, version, of="a", spec={"v": version})
        if action == "put":
            cluster[name] = state
        elif cluster.pop(name, None) is None:
            continue
        events.append((action, state))
    order.shuffle(events)
    held = store()
    held.put(TIER, tier("a", 10_000))
    for number, (action, state) in enumerate(events):
        if number == min(list_at, len(events) - 1):
            held.replace_all(PVC, [], mark=held.mark())
        if number not in lost:
            (held.put if action == "put" else held.delete)(SERVICE, copy.deepcopy(state))
    held.replace_all(SERVICE, list(cluster.values()), mark=held.mark())
    assert {each["metadata"]["name"]: each for each in held.children_of(NS, "a")} == cluster


def test_slimming_twice_is_slimming_once() -> None:
    raw = {
        POD: child(
            "p", 1, of="a", spec={"volumes": [{"name": "w", "ephemeral": {}}], "containers": [{"name": "c"}]}
        ),
        DEPLOYMENT: child("d", 1, of="a", spec={"replicas": 1}),
        HPA: child("h", 1, of="a", spec={"scaleTargetRef": {"kind": "Deployment", "name": "d"}}),
        SERVICE: child("s", 1, of="a"),
        TIER: tier("a", 1),
    }
    for kind, obj in raw.items():
        obj["metadata"]["managedFields"] = [{"manager": "m", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]
        obj["metadata"]["annotations"] = {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "kept": "yes",
        }
        once = slim(kind, obj)
        assert slim(kind, once) == once
        assert once["metadata"]["annotations"] == {"kept": "yes"}
