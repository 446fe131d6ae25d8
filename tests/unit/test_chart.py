"""The chart: what helm renders from it is valid, restricted, and permits exactly what the operator's table says."""

import functools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate.utils import validate

from dev import chart
from dev.chart import HelmError
from tierwright.api.crd import crd_yaml
from tierwright.control.kinds import CHILDREN, WATCHED
from tierwright.control.rbac import EDIT, KEEP, PERMISSIONS, VIEW, Permission
from tierwright.settings import Settings, environment_name, resolve

ROOT = Path(__file__).resolve().parents[2]
DIGEST = f"sha256:{'a1' * 32}"
INSTALLS: dict[str, tuple[str, ...]] = {
    "default": (),
    "namespaced": ('watchNamespaces=["team-a","team-b"]',),
    "namespaced without any ClusterRole": (
        'watchNamespaces=["team-a"]',
        "rbac.aggregate=false",
        "crds.install=false",
    ),
    "identity given by somebody else": (
        "rbac.create=false",
        'serviceAccount={"create":false,"name":"given"}',
    ),
    "everything set": (
        f'image={{"repository":"registry.example/team/operator","digest":"{DIGEST}","pullPolicy":"Always"}}',
        'imagePullSecrets=[{"name":"pull"}]',
        'extraEnv=[{"name":"HTTPS_PROXY","value":"http://proxy.example:3128"}]',
        'logging={"level":"debug","format":"text"}',
        "resyncSeconds=60",
        'poolSize="nodes"',
        'metrics.service={"enabled":true,"port":9090,"annotations":{"a":"b"}}',
        'nodeSelector={"pool":"system"}',
        'tolerations=[{"key":"system","operator":"Exists"}]',
        'affinity={"nodeAffinity":{}}',
        'priorityClassName="system-cluster-critical"',
        'podAnnotations={"a":"b"}',
        'podLabels={"team":"platform"}',
        'serviceAccount.annotations={"eks.amazonaws.com/role-arn":"arn:aws:iam::1:role/x"}',
        'nameOverride="speeds"',
    ),
}
Objects = list[dict[str, Any]]


@functools.cache
def text(values: tuple[str, ...], release: str, namespace: str) -> str:
    return chart.render(values=values, release=release, namespace=namespace)


def rendered(*values: str, release: str = chart.RELEASE, namespace: str = chart.NAMESPACE) -> Objects:
    return chart.objects(text(values, release, namespace))


def of_kind(objects: Objects, kind: str) -> Objects:
    return [each for each in objects if each["kind"] == kind]


def only(objects: Objects, kind: str) -> dict[str, Any]:
    (found,) = of_kind(objects, kind)
    return found


def granted(rules: list[dict[str, list[str]]]) -> set[tuple[str, str, str]]:
    """Every (group, resource, verb) that rules give."""
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def table(*permissions: Permission) -> set[tuple[str, str, str]]:
    return {(each.group, each.resource, verb) for each in permissions for verb in each.verbs}


def test_lint_finds_nothing() -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in chart.run_helm(["lint", "--strict", str(chart.CHART)])


@pytest.mark.parametrize("values", INSTALLS.values(), ids=INSTALLS.keys())
def test_every_object_is_valid_and_names_its_place(values: tuple[str, ...]) -> None:
    objects = rendered(*values, namespace="elsewhere")
    assert objects
    for each in objects:
        validate(each, "1.37", strict=True)
        if not each["kind"].startswith(("Cluster", "CustomResourceDefinition")):
            assert each["metadata"]["namespace"] in ("elsewhere", "team-a", "team-b")
    names = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("values", INSTALLS.values(), ids=INSTALLS.keys())
def test_the_pod_meets_the_restricted_pod_security_standard(values: tuple[str, ...]) -> None:
    pod = only(rendered(*values), "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "privileged": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes", "initContainers"} & pod.keys()


@pytest.mark.parametrize(
    "release", ["tierwright", "x", "a-release-name-of-the-fifty-three-letters-helm-allows"]
)
def test_names_and_labels_stay_within_63_characters(release: str) -> None:
    for each in rendered('watchNamespaces=["team-a"]', release=release, namespace="n" * 63):
        assert len(each["metadata"]["name"]) <= (253 if each["kind"] != "Service" else 63)
        assert all(len(value) <= 63 for value in each["metadata"]["labels"].values())


def test_the_cluster_wide_role_is_the_table() -> None:
    roles = {each["metadata"]["name"]: granted(each["rules"]) for each in of_kind(rendered(), "ClusterRole")}
    assert roles == {
        "tierwright-operator": table(*PERMISSIONS),
        "tierwright-view": table(*VIEW),
        "tierwright-edit": table(*EDIT),
    }


def test_a_namespaced_install_is_permitted_in_its_namespaces_alone() -> None:
    objects = rendered('watchNamespaces=["team-a","team-b"]')
    roles = {each["metadata"]["namespace"]: granted(each["rules"]) for each in of_kind(objects, "Role")}
    assert roles == dict.fromkeys(("team-a", "team-b"), table(*PERMISSIONS))
    assert not [each for each in of_kind(objects, "ClusterRole") if "operator" in each["metadata"]["name"]]
    bindings = of_kind(objects, "RoleBinding") + of_kind(objects, "ClusterRoleBinding")
    account = only(objects, "ServiceAccount")["metadata"]
    for binding in bindings:
        (subject,) = binding["subjects"]
        assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
    assert len(bindings) == 2


def test_a_tenant_may_install_without_touching_the_cluster() -> None:
    objects = rendered(*INSTALLS["namespaced without any ClusterRole"])
    assert not [each["kind"] for each in objects if each["kind"].startswith(("Cluster", "Custom"))]


def test_two_namespaced_releases_of_one_name_do_not_collide() -> None:
    values = ('watchNamespaces=["team-a"]', "crds.install=false", "rbac.aggregate=false")
    one, other = (rendered(*values, namespace=namespace) for namespace in ("one", "other"))
    keys = [
        {(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects}
        for objects in (one, other)
    ]
    assert not keys[0] & keys[1]


@pytest.mark.parametrize("install", [(), ('watchNamespaces=["team-a"]',)])
def test_nodes_are_listed_only_where_pools_are_of_a_fixed_size(install: tuple[str, ...]) -> None:
    def on_nodes(*values: str) -> list[tuple[str, list[str]]]:
        return [
            (each["kind"], rule["verbs"])
            for each in rendered(*install, *values)
            for rule in each.get("rules") or ()
            if "nodes" in rule["resources"]
        ]

    assert on_nodes() == []
    fixed = 'poolSize="nodes"'
    assert on_nodes(fixed) == [("ClusterRole", ["list"])]
    bindings = of_kind(rendered(*install, fixed), "ClusterRoleBinding")
    (binding,) = [each for each in bindings if each["metadata"]["name"].endswith("-nodes")]
    role = binding["roleRef"]["name"]
    assert role in {each["metadata"]["name"] for each in of_kind(rendered(*install, fixed), "ClusterRole")}
    if install:
        assert chart.NAMESPACE in role, "a second release of this name in another namespace has its own"
    (container,) = only(rendered(*install, fixed), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {"name": "TIERWRIGHT_POOL_SIZE", "value": "nodes"} in container["env"]


def test_the_table_permits_every_watch() -> None:
    watched = {(each.kind.group, each.kind.plural, verb) for each in WATCHED for verb in ("list", "watch")}
    assert watched <= table(*PERMISSIONS)
    assert {each for each in table(*PERMISSIONS) if each[2] == "watch"} <= watched


def test_the_table_permits_every_child_and_never_a_secret() -> None:
    children = {(kind.group, kind.plural) for kind in CHILDREN}
    assert {(each.group, each.resource) for each in PERMISSIONS if set(KEEP) <= set(each.verbs)} == children
    assert "secrets" not in {each.resource for each in PERMISSIONS}
    assert not [
        each for each in (*PERMISSIONS, *VIEW, *EDIT) if "*" in (each.group, each.resource, *each.verbs)
    ]


def test_tiers_join_the_roles_that_people_have() -> None:
    roles = {
        each["metadata"]["name"]: each["metadata"]["labels"] for each in of_kind(rendered(), "ClusterRole")
    }
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    assert {
        name: {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
        for name, labels in roles.items()
    } == {
        "tierwright-operator": set(),
        "tierwright-view": {"view", "edit", "admin"},
        "tierwright-edit": {"edit", "admin"},
    }


def test_the_crd_of_the_chart_is_the_crd() -> None:
    shipped = only(rendered(), "CustomResourceDefinition")
    assert shipped["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert shipped == yaml.safe_load(crd_yaml())
    assert shipped == yaml.safe_load((ROOT / "crds/tierwright.dev_inferencetiers.yaml").read_text())
    assert "annotations" not in only(rendered("crds.keep=false"), "CustomResourceDefinition")["metadata"]


def test_text_of_the_api_that_looks_like_a_template_stays_text(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "name: {{ .Values.x }} }} and {{"
    monkeypatch.setattr(
        chart, "crd_yaml", lambda: f"# c\napiVersion: v1\nmetadata:\n  name: x\nsaid: '{said}'\n"
    )
    template = chart.crd_template()
    assert re.sub(r'\{\{ "\{\{" \}\}', "{{", template).count(said) == 1
    assert "{{ .Values.x" not in template.replace('{{ "{{" }}', "")


def test_the_install_manifest_is_the_default_rendering_and_a_namespace() -> None:
    text = (ROOT / "manifests/install.yaml").read_text()
    assert text == chart.install_manifest(), "run `make generate`"
    namespace, *rest = yaml.safe_load_all(text)
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert "helm" not in text.lower().replace("charts/tierwright", "").replace("without helm", "")

    def key(each: dict[str, Any]) -> tuple[str, str]:
        return each["kind"], each["metadata"]["name"]

    expected = rendered()
    assert sorted(map(key, rest)) == sorted(map(key, expected))
    specs = {key(each): {name: each.get(name) for name in ("spec", "rules", "subjects")} for each in rest}
    assert specs == {
        key(each): {name: each.get(name) for name in ("spec", "rules", "subjects")} for each in expected
    }


def test_the_client_side_apply_annotation_can_hold_every_object() -> None:
    for each in rendered():
        assert len(yaml.safe_dump(each)) < 262_144 / 2


@pytest.mark.parametrize("values", INSTALLS.values(), ids=INSTALLS.keys())
def test_the_operator_understands_the_settings_that_it_is_given(values: tuple[str, ...]) -> None:
    (container,) = only(rendered(*values), "Deployment")["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each["value"] for each in container["env"]}
    settings = resolve({}, environment)
    assert container["args"] == ["operator"]
    assert {each["name"]: each["containerPort"] for each in container["ports"]} == {
        "metrics": settings.http_port
    }
    if values == INSTALLS["default"]:
        assert settings == Settings(log_format="json")
    if values == INSTALLS["namespaced"]:
        assert settings.namespaces == ("team-a", "team-b")
    if values == INSTALLS["everything set"]:
        assert (settings.log_level, settings.log_format, settings.resync_seconds) == ("DEBUG", "text", 60)
        assert environment["HTTPS_PROXY"] == "http://proxy.example:3128"


def test_services_of_the_namespace_cannot_become_settings() -> None:
    # A Service "tierwright-http" would give every pod TIERWRIGHT_HTTP_PORT=tcp://..., which is also a setting's name.
    pod = only(rendered(), "Deployment")["spec"]["template"]["spec"]
    assert pod["enableServiceLinks"] is False
    assert environment_name("http_port") == "TIERWRIGHT_HTTP_PORT"


def test_probes_and_the_metrics_service_reach_the_process() -> None:
    objects = rendered("metrics.service.port=9090")
    deployment = only(objects, "Deployment")["spec"]
    (container,) = deployment["template"]["spec"]["containers"]
    probes = {
        name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert probes == {
        "startupProbe": {"path": "/livez", "port": "metrics"},
        "livenessProbe": {"path": "/livez", "port": "metrics"},
        "readinessProbe": {"path": "/readyz", "port": "metrics"},
    }
    service = only(objects, "Service")["spec"]
    assert service["ports"] == [{"name": "metrics", "port": 9090, "targetPort": "metrics", "protocol": "TCP"}]
    assert service["selector"] == deployment["selector"]["matchLabels"]
    assert service["selector"].items() <= deployment["template"]["metadata"]["labels"].items()
    assert not of_kind(rendered("metrics.service.enabled=false"), "Service")


def test_a_second_apply_changes_nothing() -> None:
    # The API server drops an empty value, so that client-side apply and GitOps tools would see a difference for ever.
    (container,) = only(rendered(), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert all(each["value"] for each in container["env"])


def test_labels_of_the_user_cannot_replace_the_selector() -> None:
    deployment = only(rendered('podLabels={"app.kubernetes.io/component":"mine"}'), "Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"].items() <= labels.items()


def test_two_operators_never_run_at_once() -> None:
    deployment = only(rendered(), "Deployment")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})


@pytest.mark.parametrize(
    ("value", "image"),
    [
        ('image.repository="r.example/op"', "r.example/op:0.1.0"),
        ('image.tag="1.2.3"', "localhost/tierwright/operator:1.2.3"),
        (f'image={{"tag":"1.2.3","digest":"{DIGEST}"}}', f"localhost/tierwright/operator@{DIGEST}"),
    ],
)
def test_the_image_is_named_by_tag_or_by_digest(value: str, image: str) -> None:
    (container,) = only(rendered(value), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == image


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ('watchNamespace=["team-a"]', "watchNamespace"),
        ('image.tag="latest"', "image/tag"),
        ('image.digest="sha256:short"', "image/digest"),
        ('logging.level="loud"', "logging/level"),
        ("resyncSeconds=0", "resyncSeconds"),
        ('watchNamespaces=["Team_A"]', "watchNamespaces"),
        ('watchNamespaces=["a","a"]', "watchNamespaces"),
        ('resources={"request":{"cpu":"1"}}', "resources"),
        ("serviceAccount.create=false", "serviceAccount.name: say which ServiceAccount"),
    ],
)
def test_a_wrong_value_is_refused_and_named(value: str, complaint: str) -> None:
    with pytest.raises(HelmError, match=re.escape(complaint)):
        chart.render(values=[value])


def test_every_default_value_is_known_to_the_schema() -> None:
    values = yaml.safe_load((chart.CHART / "values.yaml").read_text())
    schema = yaml.safe_load((chart.CHART / "values.schema.json").read_text())

    def missing(value: object, node: dict[str, Any], path: str) -> list[str]:
        if "properties" not in node or not isinstance(value, dict):
            return []
        unknown = [f"{path}.{name}" for name in value if name not in node["properties"]]
        optional = [f"{path}.{name}" for name in node["properties"] if name not in value]
        return [
            *unknown,
            *optional,
            *(
                gap
                for name in value
                for gap in missing(value[name], node["properties"].get(name, {}), f"{path}.{name}")
            ),
        ]

    assert set(missing(values, schema, "")) == {".global", ".resources.claims"}


def test_an_old_cluster_is_refused() -> None:
    with pytest.raises(HelmError, match="kubeVersion"):
        chart.render(kube_version="1.29.9")


def test_the_chart_and_the_operator_have_one_version() -> None:
    metadata = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
    project = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert project is not None
    assert metadata["version"] == metadata["appVersion"] == project[1]


def test_the_notes_tell_how_to_apply_a_tier_that_is_accepted() -> None:
    notes = chart.render(notes=True).partition("NOTES:")[2]
    tier = yaml.safe_load(re.search(r"<<'EOF'\n(.*?)\n   EOF", notes, re.DOTALL)[1])  # type: ignore[index]
    assert tier["kind"] == "InferenceTier"
    assert f"service/{tier['metadata']['name']} 8000" in notes
    assert "kubectl create namespace serving" in notes
    namespaced = chart.render(values=['watchNamespaces=["team-a"]'], notes=True).partition("NOTES:")[2]
    assert "kubectl --namespace team-a apply" in namespaced
    assert "create namespace" not in namespaced


def test_the_operator_is_told_where_the_workers_images_lie() -> None:
    spec = only(rendered('worker.image.repository="registry.example.com/own/worker"'), "Deployment")["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert env["TIERWRIGHT_WORKER_REPOSITORY"] == "registry.example.com/own/worker"
