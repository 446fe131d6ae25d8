"""The half "In a tier" of docs/how-to/bring-your-own-model.md: its commands run as they stand, and its tier gets what it says.

Of a cluster that could run the worker only the containers are missing here, and of the commands only `docker` is played: it
is held against the Dockerfile, and the image that it pushes against the one that the tier then runs.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev import chart
from dev.cluster import cluster as clusters
from tests.support.documents import ROOT, Block, blocks
from tests.support.kubernetes import Kubernetes
from tests.support.operator_process import operator_kubeconfig, running_operator
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

PAGE = ROOT / "docs" / "how-to" / "bring-your-own-model.md"
NAME, NAMESPACE = "mine-fast", "serving"
DOCKER = '#!/usr/bin/env bash\nprintf "%s\\n" "$*" >> "$PLAYED_DOCKER"\n'


def in_a_tier(language: str) -> Block:
    """The one block of this language behind the heading."""
    heading = PAGE.read_text(encoding="utf-8").splitlines().index("## In a tier") + 1
    (block,) = [block for block in blocks(PAGE) if block.line > heading and block.language == language]
    return block


def pushed_image(told: list[str]) -> str:
    """The image that docker was told to build for the worker, and to push."""
    build, push = told
    found = re.fullmatch(r"build --target (\S+) --build-arg (\w+)=(\w+) --tag (\S+) \.", build)
    assert found is not None, build
    target, argument, flavour, image = found.groups()
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(rf"^FROM \S+ AS {target}$", dockerfile, re.MULTILINE)
    assert re.search(rf"^ARG {argument}=", dockerfile, re.MULTILINE)
    assert image.endswith(f"-{flavour}")
    assert push == f"push {image}"
    return image


def test_the_image_is_run_the_weights_fetched_and_the_programs_compiled(tmp_path: Path) -> None:
    with clusters.cluster(f"own-models-{os.getpid()}", nodes="kwok", use_given=False) as cluster:
        played = tmp_path / "bin"
        played.mkdir()
        (played / "docker").write_text(DOCKER)
        (played / "docker").chmod(0o755)
        path = f"{played}:{cluster.helm.parent}:{cluster.kubectl.parent}:{os.environ['PATH']}"
        environment = {**cluster.environ(), "PATH": path, "PLAYED_DOCKER": str(tmp_path / "told")}
        system = ("--namespace", chart.NAMESPACE)

        def shell(script: str) -> None:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", script],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=180,
                check=False,
            )
            assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"

        shell(f"helm install {chart.RELEASE} charts/tierwright {' '.join(system)} --create-namespace")
        shell(in_a_tier("sh").text)
        image = pushed_image((tmp_path / "told").read_text().splitlines())

        admin = Kubernetes(cluster.kubeconfig, chart.NAMESPACE)
        deployed = admin.must_get("Deployment", "tierwright-operator")
        (container,) = deployed["spec"]["template"]["spec"]["containers"]
        told = {each["name"]: each.get("value", "") for each in container["env"]}
        repository = told["TIERWRIGHT_WORKER_REPOSITORY"]
        admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        kubeconfig, user = operator_kubeconfig(admin, cluster.helm, tmp_path)
        with running_operator(kubeconfig, user, tmp_path, worker_repository=repository, resync_seconds="1"):
            k8s = Kubernetes(cluster.kubeconfig, NAMESPACE)
            k8s.apply(yaml.safe_load(in_a_tier("yaml").text))
            job = eventually(lambda: k8s.list("Job", f"tierwright.dev/tier={NAME}"), "the compile Job")[0]
            compiling: dict[str, Any] = job["spec"]["template"]["spec"]
            assert compiling["containers"][0]["image"] == image
            assert compiling["containers"][0]["args"][0] == "compile"
            assert "hf://HuggingFaceTB/SmolLM2-135M-Instruct@main" in str(compiling["initContainers"])
            eventually(lambda: k8s.get("Deployment", NAME), "the Deployment, once it is compiled")
            pod: dict[str, Any] = k8s.must_get("Deployment", NAME)["spec"]["template"]["spec"]
            assert pod["containers"][0]["image"] == image
            claims = {
                volume["persistentVolumeClaim"]["claimName"]
                for volume in pod["volumes"]
                if "persistentVolumeClaim" in volume
            }
            assert claims == {claim["metadata"]["name"] for claim in k8s.list("PersistentVolumeClaim")}
            assert len(claims) == 2
            k8s.close()
        admin.close()
