"""Weights are fetched once, by the container that has the token, and the server mounts them read-only."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.tier_bundles import (
    bundle_of,
    engine_container,
    env_of,
    flag,
    pod_spec,
    refusal_of,
    tier,
)
from tierwright.api.conditions import Reason
from tierwright.api.engine import EngineType
from tierwright.api.tier import InferenceTier
from tierwright.desired.environment import fetch_env
from tierwright.desired.fetch import FETCH_CONTAINERS, FETCH_SCRIPT, fetch_containers, token_env
from tierwright.desired.weights import weights_plan

GATED = {
    "name": "meta/llama",
    "source": "hf://meta-llama/Llama-3.3-70B-Instruct@0a1b2c3",
    "tokenSecretRef": {"name": "hf", "key": "token"},
}
FOLDER = "/models/hf/meta-llama/Llama-3.3-70B-Instruct/0a1b2c3"
TOKEN = {"secretKeyRef": {"name": "hf", "key": "token"}}


def fetch_container(wanted: InferenceTier) -> dict[str, Any]:
    (container,) = pod_spec(wanted)["initContainers"]
    return dict(container)


def mounts(container: dict[str, Any]) -> dict[str, bool]:
    return {item["mountPath"]: item.get("readOnly", False) for item in container["volumeMounts"]}


def volume(wanted: InferenceTier, name: str) -> dict[str, Any]:
    (found,) = [item for item in pod_spec(wanted)["volumes"] if item["name"] == name]
    return dict(found)


def test_the_container_that_downloads_gets_the_token() -> None:
    assert env_of(fetch_container(tier(model=GATED)))["HF_TOKEN"] == TOKEN


def test_a_token_is_referenced_and_stands_nowhere_else() -> None:
    container = engine_container(tier(model=GATED))
    assert "HF_TOKEN" not in env_of(container)
    assert env_of(container)["HF_HUB_OFFLINE"] == "1"


def test_a_public_model_needs_no_token() -> None:
    assert "HF_TOKEN" not in env_of(fetch_container(tier()))


def test_proxies_and_mirrors_of_the_user_serve_the_download() -> None:
    proxy = {"name": "HTTPS_PROXY", "valueFrom": {"secretKeyRef": {"name": "proxy", "key": "url"}}}
    mirror = {"name": "HF_ENDPOINT", "value": "https://mirror.example.com"}
    wanted = tier(engine={"env": [proxy, mirror]})
    for container in (fetch_container(wanted), engine_container(wanted)):
        assert env_of(container)["HTTPS_PROXY"] == proxy["valueFrom"]
        assert env_of(container)["HF_ENDPOINT"] == mirror["value"]


def test_a_variable_of_the_user_replaces_ours_and_stands_once() -> None:
    wanted = tier(engine={"env": [{"name": "USER", "value": "me"}, {"name": "EMPTY", "value": ""}]})
    container = engine_container(wanted)
    names = [item["name"] for item in container["env"]]
    assert len(names) == len(set(names))
    assert env_of(container)["USER"] == "me"
    assert {"name": "EMPTY"} in container["env"], "an empty value would come back as a difference"


def test_the_server_reads_what_was_fetched_and_cannot_change_it() -> None:
    wanted = tier(model=GATED)
    container = engine_container(wanted)
    assert container["args"][0] == FOLDER
    assert mounts(container)["/models"] is True
    assert mounts(fetch_container(wanted))["/models"] is False
    assert fetch_container(wanted)["command"][-3:] == [
        "meta-llama/Llama-3.3-70B-Instruct",
        "0a1b2c3",
        FOLDER,
    ]


def test_the_download_runs_with_the_engines_image_but_asks_for_no_device() -> None:
    wanted = tier(hardware={"resources": {"cpu": "4", "memory": "16Gi", "ephemeralStorage": "50Gi"}})
    fetch = fetch_container(wanted)
    assert fetch["image"] == engine_container(wanted)["image"]
    assert fetch["resources"] == {
        "requests": {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "50Gi"},
        "limits": {"memory": "16Gi", "ephemeral-storage": "50Gi"},
    }
    assert env_of(fetch)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "resources" not in fetch_container(tier())


def test_without_a_cache_the_weights_live_and_die_with_the_pod() -> None:
    assert volume(tier(), "weights") == {"name": "weights", "emptyDir": {}}


def test_a_draft_model_is_fetched_too() -> None:
    draft = {"method": "Eagle3", "tokens": 3, "draftModel": {"source": "hf://org/draft"}}
    wanted = tier(engine={"speculation": draft})
    command = fetch_container(wanted)["command"]
    assert command[-3:] == ["org/draft", "main", "/models/hf/org/draft/main"]
    assert "/models/hf/org/draft/main" in engine_container(wanted)["args"][-1]


def test_a_draft_model_from_the_same_repository_is_fetched_once() -> None:
    draft = {"method": "DraftModel", "tokens": 3, "draftModel": {"source": GATED["source"]}}
    command = fetch_container(tier(model=GATED, engine={"speculation": draft}))["command"]
    assert command.count(FOLDER) == 1


def test_a_claim_is_mounted_where_it_lies_and_nothing_is_fetched() -> None:
    wanted = tier(model={"name": "m", "source": "pvc://models/llama/70b"})
    container = engine_container(wanted)
    assert "initContainers" not in pod_spec(wanted)
    assert container["args"][0] == "/sources/0/llama/70b"
    assert mounts(container)["/sources/0"] is True
    assert volume(wanted, "source-0")["persistentVolumeClaim"] == {"claimName": "models"}


def test_one_claim_for_model_and_draft_is_mounted_once_and_two_are_mounted_apart() -> None:
    def with_draft(source: str) -> InferenceTier:
        draft = {"method": "DraftModel", "tokens": 3, "draftModel": {"source": source}}
        return tier(model={"name": "m", "source": "pvc://models/llama"}, engine={"speculation": draft})

    same = [path for path in mounts(engine_container(with_draft("pvc://models/draft"))) if "sources" in path]
    apart = [path for path in mounts(engine_container(with_draft("pvc://drafts"))) if "sources" in path]
    assert same == ["/sources/0"]
    assert apart == ["/sources/0", "/sources/1"]
    assert '"model":"/sources/1"' in engine_container(with_draft("pvc://drafts"))["args"][-1]


def test_a_file_source_is_a_path_in_the_container_and_mounts_no_host_folder() -> None:
    wanted = tier(model={"name": "m", "source": "file:///models/llama"})
    assert engine_container(wanted)["args"][0] == "/models/llama"
    assert not [item for item in pod_spec(wanted)["volumes"] if "hostPath" in item]
    assert "initContainers" not in pod_spec(wanted)


def test_a_bucket_is_not_fetched_by_an_image_that_cannot() -> None:
    refusal = refusal_of(tier(model={"name": "m", "source": "s3://bucket/llama"}))
    assert refusal.reason is Reason.UNSUPPORTED
    assert refusal.path == "spec.model.source"
    assert "pvc://" in refusal.message


@pytest.mark.parametrize(
    "source", ["gs://bucket/llama", "oci://registry/llama", "hf://a/b@", "file:///m/../x"]
)
def test_a_stored_source_that_names_nothing_is_refused_in_words(source: str) -> None:
    """Rules are asked when a tier is applied; a tier that was stored under older rules comes here as well."""
    refusal = refusal_of(tier(model={"name": "m", "source": source}))
    assert refusal.reason is Reason.INVALID_SPEC
    assert refusal.path == "spec.model.source"
    assert "pvc://" in refusal.message


def test_a_draft_that_cannot_be_fetched_is_refused_at_its_own_field() -> None:
    draft = {"method": "DraftModel", "tokens": 3, "draftModel": {"source": "s3://bucket/draft"}}
    refusal = refusal_of(tier(engine={"speculation": draft}))
    assert refusal.path == "spec.engine.speculation.draftModel.source"


def test_two_revisions_never_mix_in_one_folder() -> None:
    def folder(revision: str) -> str:
        model = {"name": "m", "source": f"hf://org/model@{revision}"}
        return str(engine_container(tier(model=model))["args"][0])

    assert folder("main") != folder("v1")
    assert folder("refs/pr/1") == "/models/hf/org/model/refs--pr--1"


JAX = {"type": "jax"}


def test_a_file_in_the_image_needs_no_volume_and_nothing_hides_it() -> None:
    wanted = tier("cpu", engine=JAX, model={"name": "m", "source": "file:///models/smollm2.gguf"})
    container = engine_container(wanted)
    assert flag(container["args"], "--model") == "/models/smollm2.gguf"
    assert not [path for path in mounts(container) if path.startswith("/models")]
    assert "initContainers" not in pod_spec(wanted)


def test_a_file_that_the_weights_volume_would_hide_is_refused() -> None:
    draft = {"method": "DraftModel", "tokens": 3, "draftModel": {"source": "hf://org/draft@main"}}
    model = {"name": "m", "source": "file:///models/own.gguf"}
    refusal = refusal_of(tier(engine={"speculation": draft}, model=model))
    assert refusal.path == "spec.model.source"
    assert refusal.reason is Reason.INVALID_SPEC
    assert "/models" in refusal.message
    beside = {"name": "m", "source": "file:///models-of-mine/own"}
    assert engine_container(tier(engine={"speculation": draft}, model=beside))


@pytest.mark.parametrize(
    ("source", "said", "folder"),
    [
        ("hf://org/model", "hf://org/model@main", "/models/hf/org/model/main"),
        ("s3://bucket/a", "s3://bucket/a", "/models/s3/bucket/a"),
        ("s3://bucket//a/", "s3://bucket/a", "/models/s3/bucket/a"),
        ("s3://bucket", "s3://bucket", "/models/s3/bucket/all"),
    ],
)
def test_the_worker_fetches_by_itself(source: str, said: str, folder: str) -> None:
    wanted = tier("cpu", engine=JAX, model={"name": "m", "source": source})
    container = fetch_container(wanted)
    assert container["args"] == ["fetch", "--source", said, "--to", folder]
    assert "command" not in container
    assert flag(engine_container(wanted)["args"], "--model") == folder
    assert mounts(container)["/models"] is False
    assert mounts(engine_container(wanted))["/models"] is True


def test_a_prefix_never_lies_inside_another_ones_folder() -> None:
    def folder(prefix: str) -> str:
        model = {"name": "m", "source": f"s3://bucket/{prefix}"}
        return str(flag(engine_container(tier("cpu", engine=JAX, model=model))["args"], "--model"))

    folders = [folder(prefix) for prefix in ("a", "a/b", "a-b", "a/b c".replace(" ", "~"))]
    assert len(set(folders)) == len(folders)
    assert {path.count("/") for path in folders} == {4}


def test_a_gated_model_and_a_bucket_get_what_opens_them_where_they_are_fetched() -> None:
    """kserve#4400: the token went to the server and not to the container that downloads."""
    key = {"name": "AWS_ACCESS_KEY_ID", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "id"}}}
    draft = {"method": "DraftModel", "tokens": 3, "draftModel": {"source": "s3://bucket/draft"}}
    wanted = tier("nvidia", model=GATED, engine={**JAX, "speculation": draft, "env": [key]})
    containers = fetch_containers(
        EngineType.JAX,
        weights_plan(wanted),
        "worker:1",
        fetch_env(token_env(wanted), wanted.spec.engine.env),
        {},
        [],
    )
    assert [container["name"] for container in containers] == list(FETCH_CONTAINERS)
    for container in containers:
        assert env_of(container)["HF_TOKEN"] == TOKEN
        assert env_of(container)["AWS_ACCESS_KEY_ID"] == key["valueFrom"]


HUB_STAND_IN = """
import os, pathlib

def snapshot_download(repository, revision, local_dir, ignore_patterns):
    with open(os.environ["CALLS"], "a") as calls:
        calls.write(f"{repository}@{revision} {os.environ.get('HF_TOKEN', '-')}\\n")
    if os.environ.get("FAIL"):
        raise OSError("401 Client Error: access to this repository is restricted")
    folder = pathlib.Path(local_dir)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_text("weights")
"""


class Fetch:
    """Runs the script of the init container with a stand-in for the hub's library."""

    def __init__(self, folder: Path) -> None:
        self.calls = folder / "calls"
        self.models = folder / "models"
        library = folder / "library"
        library.mkdir()
        (library / "huggingface_hub.py").write_text(HUB_STAND_IN)
        self.env = {**os.environ, "PYTHONPATH": str(library), "CALLS": str(self.calls)}

    def run(self, *repositories: str, **env: str) -> subprocess.CompletedProcess[str]:
        arguments = [text for name in repositories for text in (name, "main", str(self.models / name))]
        return subprocess.run(
            [sys.executable, "-c", FETCH_SCRIPT, *arguments],
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def called(self) -> list[str]:
        return self.calls.read_text().split("\n")[:-1] if self.calls.exists() else []


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    return Fetch(tmp_path)


def test_weights_are_not_fetched_again_at_the_next_start(fetch: Fetch) -> None:
    """llm-d#2216: weights lay on a volume and were downloaded at every start all the same."""
    assert fetch.run("a", "b").returncode == 0
    again = fetch.run("a", "b")
    assert again.returncode == 0
    assert "already" in again.stdout
    assert fetch.called() == ["a@main -", "b@main -"]
    assert (fetch.models / "a" / "model.safetensors").exists()


def test_a_failed_fetch_says_why_and_goes_on_at_the_next_start(fetch: Fetch) -> None:
    failed = fetch.run("a", FAIL="1")
    assert failed.returncode != 0
    assert "401 Client Error" in failed.stderr.splitlines()[-1]
    assert fetch.run("a", HF_TOKEN="secret").returncode == 0
    assert fetch.called() == ["a@main -", "a@main secret"]


def test_an_image_that_cannot_fetch_says_what_to_do(fetch: Fetch) -> None:
    failed = fetch.run("a", PYTHONPATH="", PYTHONSAFEPATH="1")
    assert failed.returncode != 0
    assert "pvc://" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_the_reason_of_a_stopped_container_reaches_its_status() -> None:
    wanted = tier()
    for container in (fetch_container(wanted), engine_container(wanted)):
        assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_every_container_of_the_pod_is_pinned_with_it() -> None:
    wanted = tier(hardware={"nodePool": {"matchLabels": {"pool": "fast"}}})
    assert pod_spec(wanted)["nodeSelector"] == {"pool": "fast"}
    assert {child.manifest["kind"] for child in bundle_of(wanted).children}.isdisjoint(
        {"Job", "Pod", "StatefulSet"}
    )
