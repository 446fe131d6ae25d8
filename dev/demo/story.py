"""The demo's story, top-down: images, cluster, install, two tiers, chat, an edit, a repair, the table, clean-up."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from dev.cluster import cluster as clusters
from dev.cluster import paths, prune
from dev.cluster.images.image import load_image
from dev.cluster.network import slot
from dev.demo import chat
from dev.demo.console import Console
from dev.demo.install import ENGINE_IMAGE, OPERATOR_IMAGE, build_images, install
from dev.demo.kubectl import CommandError, Tools
from dev.demo.picture import Picture

TIERS: Final = Path(__file__).with_name("tiers")
NAME: Final = "demo"
SYSTEM: Final = "tierwright-system"
MODEL: Final = "meta/llama-3.1-8b"
SPEEDS: Final = ("fast", "standard")
PORT: Final = 8000


def run_on_given(console: Console, keep: bool) -> None:
    """Everything but images and pools, on the cluster that KUBECONFIG names; it is left as it was found.

    Raises:
        CommandError: a step did not reach what it must, or KUBECONFIG names no cluster that answers.
    """
    from dev.demo import given

    with given.installed(console, NAME, SYSTEM, (OPERATOR_IMAGE, ENGINE_IMAGE), keep) as tools:
        with console.step(f"Apply two tiers of {MODEL} and wait until both are Ready"):
            for speed in SPEEDS:
                manifest = given.anywhere((TIERS / f"{speed}.yaml").read_text(encoding="utf-8"))
                console.say(tools.kubectl("apply", "-f", "-", stdin=manifest))
            _wait_until_ready(tools)
        _show_what_it_does(console, tools, Picture())
    console.end("The demo is over.")


def run(console: Console, keep: bool, picture: Path | None) -> None:
    """Everything, on real nodes.

    Raises:
        CommandError: a step did not reach what it must.
    """
    _require_place()
    shown = Picture()
    with console.step("Build the operator's and the engine simulator's image"):
        images = build_images(console.say)
        prune.prune(console.say)
    with _cluster(console, keep) as running:
        tools = Tools(running.kubectl, running.helm, running.kubeconfig, NAME)
        with console.step("Install Tierwright with Helm, as a user would"):
            for image in images:
                load_image(image, running.run_dir)
            install(tools, SYSTEM)
            console.say(tools.kubectl("--namespace", SYSTEM, "get", "deployments"))
        with console.step(f"Apply two tiers of {MODEL} and wait until both are Ready"):
            tools.kubectl("create", "namespace", NAME)
            for speed in SPEEDS:
                console.say(tools.kubectl("apply", "-f", str(TIERS / f"{speed}.yaml")))
            _wait_until_ready(tools)
            console.say(tools.kubectl("get", "pods", "-o", "wide"))
        _show_what_it_does(console, tools, shown)
        if picture:
            picture.write_text(shown.svg(), encoding="utf-8")
        if keep:
            _say_how_to_look_around(console, running.kubeconfig)
    console.end("The demo kept its cluster." if keep else "The demo is over; nothing is left but the caches.")


_CONDITIONS: Final = (
    '{range .status.conditions[*]}{.type}{"="}{.status}{"  "}{.reason}{": "}{.message}{"\\n"}{end}'
)


def run_without_nodes(console: Console, missing: list[str]) -> None:
    """What can be shown where real nodes cannot run: the control plane, the operator, and pods that kwok plays.

    Raises:
        CommandError: a step did not reach what it must.
    """
    from dev.demo.without_nodes import operator_beside

    for sentence in missing:
        console.say(sentence)
    console.say(
        "So the pods are played by kwok: no container runs, no chat request is answered, no image is built."
    )
    console.say(
        "On a kind or minikube cluster of yours: make demo CLUSTER=given (docs/how-to/develop-on-kind.md)."
    )
    with clusters.cluster(name=NAME, nodes="kwok", use_given=False) as running:
        tools = Tools(running.kubectl, running.helm, running.kubeconfig, NAME)
        with operator_beside(tools, running.run_dir):
            with console.step(f"Apply two tiers of {MODEL} and wait until both are Ready"):
                tools.kubectl("create", "namespace", NAME)
                for speed in SPEEDS:
                    console.say(tools.kubectl("apply", "-f", str(TIERS / f"{speed}.yaml")))
                _wait_until_ready(tools)
            with console.step("Edit the fast tier's batch size: its pods roll, the others stay"):
                _edit_batch_size(console, tools)
            with console.step("Delete the fast tier's Service by hand: it comes back"):
                _delete_service(console, tools)
            with console.step("What a person on call sees"):
                console.say(tools.kubectl("get", "itier"))
    console.end("Not shown: real containers, chat requests, tokens per second.")


def _show_what_it_does(console: Console, tools: Tools, shown: Picture) -> None:
    """Chat through both speeds, an edit, a repair, and the table."""
    with console.step("Send the same chat requests to both speeds through their Services"):
        speeds = {speed: _measure(tools, speed) for speed in SPEEDS}
        shown.speeds = speeds
        _show_speeds(console, speeds)
    with console.step("Edit the fast tier's batch size: its pods roll, the others stay"):
        _edit_batch_size(console, tools)
    with console.step("Delete the fast tier's Service by hand: it comes back"):
        _delete_service(console, tools)
    with console.step("What a person on call sees"):
        shown.table = tools.kubectl("get", "itier")
        console.say(shown.table)
        console.say(tools.kubectl("get", "itier", "llama-fast", "-o", f"jsonpath={_CONDITIONS}"))


def _wait_until_ready(tools: Tools) -> None:
    """Waits for all tiers; when one does not come, says what the cluster says of it."""
    try:
        tools.kubectl("wait", "--for=condition=Ready", "itier", "--all", "--timeout=180s")
    except CommandError as error:
        seen = [str(error)]
        for words in (
            ("get", "itier,pods", "-o", "wide"),
            ("describe", "itier"),
            ("--namespace", SYSTEM, "logs", "deployment/tierwright-operator", "--tail=20"),
        ):
            with suppress(CommandError):  # the operator has no Deployment where it runs beside the cluster
                seen.append(tools.kubectl(*words))
        raise CommandError("\n".join(seen)) from error


def _require_place() -> None:
    """Before anything is built: the cluster `demo` is not there yet, and no other one with real nodes either."""
    with suppress(LookupError):
        running = clusters.attach(NAME)
        raise CommandError(
            f"cluster {NAME} runs already (`make demo KEEP=1` leaves it). Look around with KUBECONFIG="
            f"{running.kubeconfig}, or end it with: .venv/bin/python -m dev.cluster down --name {NAME}"
        )
    slot.require_free(own=paths.run_dir(NAME))


@contextmanager
def _cluster(console: Console, keep: bool) -> Iterator[clusters.Cluster]:
    with console.step("Start a Kubernetes with the pools fast and standard"):
        running = clusters.up(NAME, nodes="real", progress=console.say, use_given=False, shared=False)
        tools = Tools(running.kubectl, running.helm, running.kubeconfig, "default")
        console.say(tools.kubectl("get", "nodes", "-L", "karpenter.sh/nodepool"))
    try:
        yield running
    except BaseException:
        clusters.down(NAME)
        raise
    if not keep:
        with console.step("Clean up"):
            clusters.down(NAME)


def _measure(tools: Tools, speed: str) -> chat.Speed:
    with tools.forward(_service(tools, speed), PORT) as url:
        return chat.measure(f"{url}/v1", MODEL)


def _service(tools: Tools, speed: str) -> str:
    """The name of the tier's Service, taken from the endpoint in its status."""
    endpoint = tools.kubectl("get", "itier", f"llama-{speed}", "-o", "jsonpath={.status.endpoint}")
    return endpoint.partition(".")[0]


def _show_speeds(console: Console, speeds: dict[str, chat.Speed]) -> None:
    fast, standard = speeds["fast"], speeds["standard"]
    if [each.text for each in fast.answers] != [each.text for each in standard.answers]:
        raise CommandError("the two speeds gave different text to the same greedy prompts")
    console.say(
        f"{'speed':<10}{'tokens/s':>10}{'first token':>14}   (simulated engine, 3 edit and copy prompts)"
    )
    for name, speed in speeds.items():
        console.say(f"{name:<10}{speed.tokens_per_second:>10.0f}{speed.first_token_ms:>11.0f} ms")
    ratio = fast.tokens_per_second / standard.tokens_per_second
    console.say(f"fast / standard = {ratio:.2f}; the text of both is the same on all prompts")


def _pods(tools: Tools, speed: str) -> set[str]:
    return {
        pod["metadata"]["uid"]
        for pod in tools.objects("pods", f"tierwright.dev/speed={speed}")
        if "deletionTimestamp" not in pod["metadata"]
    }


def _edit_batch_size(console: Console, tools: Tools) -> None:
    before = {speed: _pods(tools, speed) for speed in SPEEDS}
    edit = '{"spec":{"engine":{"batching":{"maxSequences":4}}}}'
    console.say(tools.kubectl("patch", "itier", "llama-fast", "--type=merge", "-p", edit))
    tools.wait(lambda: not (_pods(tools, "fast") & before["fast"]), "the fast tier's old pod is gone")
    tools.kubectl("wait", "--for=condition=Ready", "itier", "llama-fast", "--timeout=120s")
    tools.wait(lambda: len(_pods(tools, "fast")) == len(before["fast"]), "the fast tier's new pod is there")
    if _pods(tools, "standard") != before["standard"]:
        raise CommandError("the standard tier's pods were touched by an edit of the fast tier")
    arguments = tools.objects("pods", "tierwright.dev/speed=fast")[0]["spec"]["containers"][0]["args"]
    console.say(
        f"the fast tier has a new pod with: {_shown_batch(arguments)}; the standard tier kept its pod"
    )


def _shown_batch(arguments: list[str]) -> str:
    for position, word in enumerate(arguments):
        if word.startswith("--max-num-seqs"):
            return word if "=" in word else f"{word} {arguments[position + 1]}"
    raise CommandError(f"--max-num-seqs is not among the engine's arguments: {arguments}")


def _delete_service(console: Console, tools: Tools) -> None:
    name = _service(tools, "fast")
    before = tools.kubectl("get", "service", name, "-o", "jsonpath={.metadata.uid}")
    console.say(tools.kubectl("delete", "service", name))

    def back() -> bool:
        found = [each for each in tools.objects("services") if each["metadata"]["name"] == name]
        return bool(found) and found[0]["metadata"]["uid"] != before

    tools.wait(back, f"the Service {name} is back", 30)
    console.say(tools.kubectl("get", "service", name))


def _say_how_to_look_around(console: Console, kubeconfig: Path) -> None:
    console.say(f"export KUBECONFIG={kubeconfig}")
    console.say(f"kubectl -n {NAME} get itier -o wide")
    console.say(f"kubectl -n {NAME} describe itier llama-fast")
    console.say(f"kubectl -n {NAME} scale itier llama-standard --replicas=2")
    console.say(f"kubectl -n {SYSTEM} logs deployment/tierwright-operator -f")
    console.say(f".venv/bin/python -m dev.cluster down --name {NAME}     # when you are done")
