"""The API server and the models give the same verdict, at the same path, in the same words."""

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from dev.cluster.api import Api, ApiError
from tests.support.kubernetes import Kubernetes
from tests.support.tiers import FINE, REFUSED
from tests.support.tiers.cases import Case, Fine, Spec, load, sample_files, spec, tier
from tests.support.tiers.generate import specs, successions
from tierwright.api.parse import parse_tier
from tierwright.api.rules import RULES
from tierwright.api.tier import TierSpec

if TYPE_CHECKING:
    from dev.cluster.cluster import Cluster

pytestmark = pytest.mark.integration

CRD = Path(__file__).resolve().parents[2] / "crds" / "tierwright.dev_inferencetiers.yaml"
Verdict = set[tuple[str, str]]
OF_RULES = tuple(rule.message for rule in RULES)
PROPERTY = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
)


class Server:
    """Asks the API server what it thinks of a tier, without storing it."""

    def __init__(self, user: Kubernetes) -> None:
        """Connect as the user, in the user's namespace."""
        self._api = Api.from_kubeconfig(user.kubeconfig)
        self._path = user.path("InferenceTier")

    def verdict(self, content: dict[str, Any], before: dict[str, Any] | None = None) -> Verdict:
        """What is wrong with a spec, as (field path, message); with ``before``, as a change of that one."""
        if before is None:
            return self._refusals("POST", self._path, tier(content))
        stored = self._api.request("POST", self._path, tier(before, "stored"))
        try:
            changed = tier(content, "stored")
            changed["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
            return self._refusals("PUT", f"{self._path}/stored", changed)
        finally:
            self._api.request("DELETE", f"{self._path}/stored")

    def stored(self, content: dict[str, Any]) -> dict[str, Any]:
        """The object as the server would store it: pruned and defaulted."""
        return self._api.request("POST", f"{self._path}?dryRun=All", tier(content))

    def close(self) -> None:
        """Close the connection."""
        self._api.close()

    def _refusals(self, method: str, path: str, body: dict[str, Any]) -> Verdict:
        try:
            self._api.request(method, f"{path}?dryRun=All&fieldValidation=Strict", body)
        except ApiError as error:
            if error.status not in (400, 422):
                raise
            return set(error.causes) or {("", str(error))}
        return set()


@pytest.fixture(scope="module")
def server(admin: Kubernetes, cluster: "Cluster", crd: None) -> Iterator[Server]:
    namespace = f"api-rules-{uuid.uuid4().hex[:8]}"
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    user = Kubernetes(cluster.kubeconfig, namespace)
    asked = Server(user)
    yield asked
    asked.close()
    user.close()
    admin.delete("Namespace", namespace)


def models(content: dict[str, Any], before: dict[str, Any] | None = None) -> Verdict:
    old: TierSpec | None = None
    if before is not None:
        stored = parse_tier(tier(before), strict=True)
        assert stored.tier is not None, stored.errors
        old = stored.tier.spec
    errors = parse_tier(tier(content), strict=True, old=old).errors
    return {(error.path, error.message) for error in errors}


def assert_same(from_models: Verdict, from_server: Verdict) -> None:
    """The server puts the kind of error and the value before the words, so words are compared by their end."""
    unmatched = {
        (path, words)
        for path, words in from_server
        if not any(path == own_path and words.endswith(own) for own_path, own in from_models)
    }
    assert not unmatched, f"the models say {from_models}"
    assert len(from_server) == len(from_models), f"the server says {from_server}, the models {from_models}"


def test_plain_client_side_apply_takes_the_crd(cluster: "Cluster", crd: None) -> None:
    done = subprocess.run(
        [cluster.kubectl, "--kubeconfig", cluster.kubeconfig, "apply", "-f", CRD],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", sample_files(), ids=lambda path: path.stem)
def test_the_samples_are_accepted(server: Server, path: Path) -> None:
    assert server.verdict(load(path)["spec"]) == set()


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_breaks_a_rule_is_refused_in_the_same_words(server: Server, case: Case) -> None:
    content = spec(case.base, case.changes)
    before = None if case.before is None else spec(case.base, case.before)
    assert_same(models(content, before), server.verdict(content, before))


@pytest.mark.parametrize("case", FINE, ids=str)
def test_what_comes_close_to_a_rule_is_accepted(server: Server, case: Fine) -> None:
    content = spec(case.base, case.changes)
    before = None if case.before is None else spec(case.base, case.before)
    assert server.verdict(content, before) == set()


@PROPERTY
@given(content=specs())
def test_models_and_server_agree_on_new_tiers(server: Server, content: Spec) -> None:
    assert_agree(models(content), server.verdict(content))


@PROPERTY
@given(content=specs())
def test_a_stored_tier_means_what_was_written(server: Server, content: Spec) -> None:
    written = parse_tier(tier(content), strict=False).tier
    assume(written is not None)
    assert written is not None
    read = parse_tier(server.stored(content), strict=True).tier
    assert read is not None
    assert read.spec == written.spec


@PROPERTY
@given(pair=successions())
def test_models_and_server_agree_on_changes(server: Server, pair: tuple[Spec, Spec]) -> None:
    before, content = pair
    assume(not models(before))
    assert_agree(models(content, before), server.verdict(content, before))


def assert_agree(from_models: Verdict, from_server: Verdict) -> None:
    """Where the form is wrong the server asks no rules, so there only the verdict is compared."""
    if all(words.startswith(OF_RULES) for _, words in from_models):
        assert_same(from_models, from_server)
    else:
        assert from_server, f"the models say {from_models}"


def test_scaling_obeys_the_rules_too(server: Server, k8s: Kubernetes) -> None:
    k8s.create(tier(spec("gpu", {"cache.weights": {"size": "1Gi"}})))
    with pytest.raises(ApiError, match="replicas on several nodes cannot share"):
        k8s.patch("InferenceTier", "t", {"spec": {"replicas": 2}}, "scale")
    k8s.patch("InferenceTier", "t", {"spec": {"replicas": 0}}, "scale")
    assert k8s.must_get("InferenceTier", "t")["spec"]["replicas"] == 0


def test_an_automatic_tier_refuses_to_be_scaled_by_hand(server: Server, k8s: Kubernetes) -> None:
    auto = {"mode": "Auto", "maxReplicas": 4, "objectives": {"timeToFirstToken": "500ms"}}
    k8s.create(tier(spec("gpu", {"scaling": auto})))
    with pytest.raises(ApiError, match=r"set scaling\.mode: Manual"):
        k8s.patch("InferenceTier", "t", {"spec": {"replicas": 2}}, "scale")
