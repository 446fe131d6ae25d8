"""Tiers of an installed operator serve: chat at two speeds, metrics, the usual kubectl words, and a drain that loses nothing."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from openai import OpenAI
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.installation import (
    ENGINE_PORT,
    SYSTEM,
    Installation,
    Object,
    applied,
    argument,
    engine,
    pods,
    serves,
    tier,
    told,
)
from tests.e2e.load import running
from tests.support.kubernetes import Kubernetes
from tests.support.waiting import eventually

MODEL = "meta/llama-3.1-8b"
PROMPT = "Repeat this line, then tell why it matters: every request that was accepted is answered to its end."
LONG_ANSWER = 400
SLOW = {"TIME_SCALE": "5"}
"""Some 60 ms a token: the long answer lasts longer than the time between an edit and the engine's SIGTERM."""


def speed(name: str, **changes: object) -> Object:
    """A tier of the model that all tiers of this module but one share; its speed is its name."""
    return tier(
        name,
        model={"name": MODEL, "source": "file:///models/llama"},
        speed=name,
        engine=engine(dict(changes)),
    )


TIERS = [
    speed("fast", speculation={"method": "NGram", "tokens": 8}, batching={"maxSequences": 4}),
    speed("standard"),
    tier("drains", env=SLOW, rollout={"drainTimeout": "2m", "startupTimeout": "1m"}),
]


@pytest.fixture(scope="module", autouse=True)
def tiers(serving: Kubernetes) -> None:
    """All tiers of this module, serving."""
    applied(serving, TIERS)
    for each in TIERS:
        serves(serving, each["metadata"]["name"])


@dataclass(frozen=True)
class Answer:
    """A streamed answer: its text, its tokens by the engine's own count, and why it ended."""

    text: str
    tokens: int
    finish: str


def ask(url: str, model: str, max_tokens: int) -> Answer:
    """Stream one greedy answer of exactly ``max_tokens`` with the official client, to its end."""
    client = OpenAI(base_url=f"{url}/v1", api_key="not-needed", max_retries=0, timeout=120)
    pieces, finish, tokens = [], "", 0
    with client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": PROMPT}],
        temperature=0,
        max_tokens=max_tokens,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    ) as stream:
        for chunk in stream:
            tokens = chunk.usage.completion_tokens if chunk.usage else tokens
            for choice in chunk.choices:
                pieces.append(choice.delta.content or "")
                finish = choice.finish_reason or finish
    client.close()
    return Answer("".join(pieces), tokens, finish)


def test_both_speeds_give_the_same_text_through_their_services(
    installation: Installation, serving: Kubernetes
) -> None:
    tools = installation.tools(serving.namespace)
    answers = []
    for name in ("fast", "standard"):
        with tools.forward(name, ENGINE_PORT) as url:
            answers.append(ask(url, MODEL, 80))
    fast, standard = answers
    assert (fast.tokens, fast.finish) == (80, "length")
    assert fast.text
    assert fast == standard


ASK_INSIDE = """
import json, sys, urllib.request
body = {"model": sys.argv[2], "messages": [{"role": "user", "content": "Why?"}], "temperature": 0, "max_tokens": 8}
request = urllib.request.Request(f"http://{sys.argv[1]}/v1/chat/completions", json.dumps(body).encode(),
                                 {"content-type": "application/json"})
print(json.load(urllib.request.urlopen(request, timeout=20))["usage"]["completion_tokens"])
"""


def test_the_endpoint_in_the_status_answers_inside_the_cluster(
    installation: Installation, serving: Kubernetes
) -> None:
    endpoint = serving.must_get("InferenceTier", "fast")["status"]["endpoint"]
    (caller,) = pods(serving, "standard")
    said = installation.cluster.execute(
        serving, caller["metadata"]["name"], "python3", "-c", ASK_INSIDE, endpoint, MODEL
    )
    assert said.strip() == "8"


def test_metrics_of_engines_and_of_the_operator_are_scraped(
    installation: Installation, serving: Kubernetes
) -> None:
    def scraped(namespace: str, service: str) -> set[str]:
        page = f"/api/v1/namespaces/{namespace}/services/{service}/proxy/metrics"
        text = installation.tools(namespace).kubectl("get", "--raw", page)
        return {family.name for family in text_string_to_metric_families(text)}

    assert {"vllm:num_requests_running", "vllm:time_to_first_token_seconds"} <= scraped(
        serving.namespace, "standard:http"
    )
    assert {"tierwright_resyncs"} <= scraped(SYSTEM, "tierwright-operator-metrics:metrics")


def test_the_usual_kubectl_words_work(installation: Installation, serving: Kubernetes) -> None:
    kubectl = installation.tools(serving.namespace).kubectl
    kubectl("wait", "--for=condition=Ready", "itier/standard", "--timeout=10s")
    kubectl("scale", "itier", "standard", "--replicas=2")
    kubectl("wait", "--for=jsonpath={.status.readyReplicas}=2", "itier/standard", "--timeout=60s")
    serves(serving, "standard")
    header, row = kubectl("get", "itier", "standard", "-o", "wide").splitlines()
    assert header.split()[:5] == ["NAME", "MODEL", "SPEED", "ACCELERATOR", "READY"]
    assert row.split()[:5] == ["standard", MODEL, "standard", "cpu", "2/2"]
    assert {"karpenter.sh/nodepool=standard", "vllm", "Serving"} <= set(row.split())
    described = kubectl("describe", "itier", "standard")
    assert "2 of 2 replicas are ready" in described
    name = pods(serving, "standard")[0]["metadata"]["name"]
    assert "engine-sim: ready on" in kubectl("logs", name)
    assert "engine-sim: ready on" in kubectl("logs", "deployment/standard")
    assert "uid=2000" in kubectl("exec", name, "--", "id")
    kubectl("scale", "itier", "standard", "--replicas=1")
    kubectl("wait", "--for=jsonpath={.status.replicas}=1", "itier/standard", "--timeout=60s")


def test_every_tier_has_its_network_policy_and_disruption_budget(serving: Kubernetes) -> None:
    for kind in ("NetworkPolicy", "PodDisruptionBudget"):
        found = {each["metadata"]["labels"]["tierwright.dev/tier"] for each in serving.list(kind)}
        assert found == {each["metadata"]["name"] for each in TIERS}


def test_an_answer_in_flight_is_finished_before_an_edit_ends_its_pod(
    installation: Installation, serving: Kubernetes
) -> None:
    tools = installation.tools(serving.namespace)
    model = "models/drains"
    (old,) = pods(serving, "drains")
    name = old["metadata"]["name"]
    with ThreadPoolExecutor(2) as pool, tools.forward("drains", ENGINE_PORT) as url:
        answer = pool.submit(ask, url, model, LONG_ANSWER)
        eventually(lambda: running(installation, serving, name) == 1, "the request in flight", 20)
        log = pool.submit(tools.kubectl, "logs", "--follow", name)
        serving.patch("InferenceTier", "drains", {"spec": {"engine": {"batching": {"maxSequences": 8}}}})
        told(serving, "drains", "RollingOut", kind="Reconciling", deadline_s=20)
        interrupted = answer.result(timeout=120)
        said = log.result(timeout=60)
    assert (interrupted.tokens, interrupted.finish) == (LONG_ANSWER, "length")
    assert "SIGTERM: 1 requests in flight" in said
    assert said.rstrip().endswith("stopped")
    serves(serving, "drains")
    (new,) = pods(serving, "drains")
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert argument(new, "--max-num-seqs") == "8"
    with tools.forward("drains", ENGINE_PORT) as url:
        again = ask(url, model, 40)
    assert interrupted.text.startswith(again.text)
