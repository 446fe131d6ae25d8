"""The demo's story, top-down: images, cluster, install, two tiers, chat, an edit, a repair, the table, clean-up."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from dev.cluster import cluster as clusters
from dev.cluster import paths, prune
from dev.cluster.images.image import load_image
from dev.cluster.network import slot
from dev.demo import kept_caches, race, race_picture, race_table
from dev.demo.console import Console
from dev.demo.install import OPERATOR_IMAGE, build_operator_image, install
from dev.demo.kubectl import CommandError, Tools
from dev.demo.model_image import MODEL, MODEL_IMAGE, build_model_image

TIERS: Final = Path(__file__).with_name("tiers")
NAME: Final = "demo"
_ENVIRONMENT: Final = f'eval "$(.venv/bin/python -m dev.cluster env --name {NAME})"'
SYSTEM: Final = "tierwright-system"
SPEEDS: Final = ("fast", "standard")
PORT: Final = 8000


def run_on_given(console: Console, keep: bool) -> None:
    """Everything but images and pools, on the cluster that KUBECONFIG names; it is left as it was found.

    Raises:
        CommandError: a step did not reach what it must, or KUBECONFIG names no cluster that answers.
    """
    from dev.demo import given

    with given.installed(console, NAME, SYSTEM, (OPERATOR_IMAGE, MODEL_IMAGE), keep) as tools:
        with console.step(f"Apply two tiers of {MODEL} and wait until both are Ready"):
            for speed in SPEEDS:
                manifest = given.anywhere((TIERS / f"{speed}.yaml").read_text(encoding="utf-8"))
                console.say(tools.kubectl("apply", "-f", "-", stdin=manifest))
            _wait_until_ready(tools)
        _show_what_it_does(console, tools)
    console.end("The demo is over.")


def run(console: Console, keep: bool, picture: Path | None) -> None:
    """Everything, on real nodes.

    Raises:
        CommandError: a step did not reach what it must.
    """
    _require_place()
    with console.step("Build the images: the operator, and the JAX worker with a small real model in it"):
        images = [build_operator_image(console.say), build_model_image(console.say)]
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
            kept_caches.prepare(tools, SPEEDS)
            for speed in SPEEDS:
                console.say(tools.kubectl("apply", "-f", str(TIERS / f"{speed}.yaml")))
            console.say(
                "Weights are converted and programs compiled first, unless an earlier demo left them in the cache."
            )
            _wait_until_ready(tools)
            console.say(tools.kubectl("get", "pods", "-o", "wide"))
        shown = _show_what_it_does(console, tools)
        if picture:
            picture.write_text(shown, encoding="utf-8")
        if keep:
            _say_how_to_look_around(console)
    console.end("The demo kept its cluster." if keep else "The demo is over; nothing is left but the caches.")


_CONDITIONS: Final = (
    '{range .status.conditions[*]}{.type}{"="}{.status}{"  "}{.reason}{": "}{.message}{"\\n"}{end}'
)


def run_without_nodes(console: Console, missing: list[str], keep: bool) -> None:
    """What can be shown where real nodes cannot run: the control plane, the operator, and pods that kwok plays.

    Raises:
        CommandError: a step did not reach what it must.
    """
    from dev.demo.without_nodes import operator_beside

    _require_no_demo()
    for sentence in missing:
        console.say(sentence)
    console.say(
        "So the pods are played by kwok: no container runs, no chat request is answered, no image is built."
    )
    console.say(
        "On a kind or minikube cluster of yours: make demo CLUSTER=given (docs/how-to/develop-on-kind.md)."
    )
    with _cluster(console, keep, "kwok") as running:
        tools = Tools(running.kubectl, running.helm, running.kubeconfig, NAME)
        with operator_beside(tools, running.run_dir):
            with console.step(f"Apply two tiers of {MODEL} and wait until both are Ready"):
                tools.kubectl("create", "namespace", NAME)
                kept_caches.prepare(tools, SPEEDS)
                for speed in SPEEDS:
                    console.say(tools.kubectl("apply", "-f", str(TIERS / f"{speed}.yaml")))
                _wait_until_ready(tools)
            with console.step("Edit the fast tier's batch size: its pods roll, the others stay"):
                _edit_batch_size(console, tools)
            with console.step("Delete the fast tier's Service by hand: it comes back"):
                _delete_service(console, tools)
            with console.step("What a person on call sees"):
                console.say(tools.kubectl("get", "itier"))
        if keep:
            console.say("The operator ran beside the cluster and ended with the demo. Start it again with:")
            _say_how_to_look_around(console, operator=".venv/bin/tierwright operator")
    console.end(
        "Not shown: real containers, chat requests, tokens per second."
        + (" The demo kept its cluster." if keep else "")
    )


def _show_what_it_does(console: Console, tools: Tools) -> str:
    """Chat through both speeds, an edit, a repair, and the table; a picture of it all, as SVG."""
    with console.step(
        "Send the same chat requests to both speeds through their Services, one speed after the other"
    ):
        runs = {speed: _race(tools, speed) for speed in SPEEDS}
        measured = _show_race(console, runs)
    with console.step("Edit the fast tier's batch size: its pods roll, the others stay"):
        _edit_batch_size(console, tools)
    with console.step("Delete the fast tier's Service by hand: it comes back"):
        _delete_service(console, tools)
    with console.step("What a person on call sees"):
        # A pod that still ends would be counted in the table: "2/1".
        tools.kubectl("wait", "--for=condition=Reconciling=False", "itier", "--all", "--timeout=120s")
        tiers = tools.kubectl("get", "itier")
        console.say(tiers)
        console.say(tools.kubectl("get", "itier", "smollm2-fast", "-o", f"jsonpath={_CONDITIONS}"))
    return race_picture.svg(runs, f"{measured}\n\n$ kubectl get itier\n{tiers}")


def _wait_until_ready(tools: Tools) -> None:
    """Waits for all tiers; when one does not come, says what the cluster says of it."""
    try:
        tools.kubectl("wait", "--for=condition=Ready", "itier", "--all", "--timeout=900s")
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
    _require_no_demo()
    slot.require_free(own=paths.run_dir(NAME))


def _require_no_demo() -> None:
    with suppress(LookupError):
        clusters.attach(NAME)
        raise CommandError(
            f"cluster {NAME} runs already (`make demo KEEP=1` leaves it). Look around with: {_ENVIRONMENT}\n"
            f"or end it with: .venv/bin/python -m dev.cluster down --name {NAME}"
        )


@contextmanager
def _cluster(console: Console, keep: bool, nodes: clusters.Nodes = "real") -> Iterator[clusters.Cluster]:
    running: clusters.Cluster | None = None
    try:
        with console.step("Start a Kubernetes with the pools fast and standard"):
            running = clusters.up(NAME, nodes=nodes, progress=console.say, use_given=False, shared=False)
            tools = Tools(running.kubectl, running.helm, running.kubeconfig, "default")
            console.say(tools.kubectl("get", "nodes", "-L", "karpenter.sh/nodepool"))
        yield running
    except BaseException:
        if running is not None:  # else it is another's, or `up` has removed what there was of it
            clusters.down(NAME)
        raise
    if not keep:
        with console.step("Clean up"):
            clusters.down(NAME)


def _race(tools: Tools, speed: str) -> race.Run:
    with tools.forward(_service(tools, speed), PORT) as url:
        return race.run(url, MODEL)


def _service(tools: Tools, speed: str) -> str:
    """The name of the tier's Service, taken from the endpoint in its status."""
    endpoint = tools.kubectl("get", "itier", f"smollm2-{speed}", "-o", "jsonpath={.status.endpoint}")
    return endpoint.partition(".")[0]


def _show_race(console: Console, runs: dict[str, race.Run]) -> str:
    fast, standard = runs["fast"], runs["standard"]
    if [each.text for each in fast.answers] != [each.text for each in standard.answers]:
        raise CommandError("the two speeds gave different text to the same greedy prompts")
    if silent := [number for number, each in enumerate(fast.answers, 1) if not each.text.strip()]:
        raise CommandError(
            f"both speeds answered nothing to prompts {silent}, so there is nothing to compare"
        )
    console.say(f"asked:    {race.prompts()[1].text.splitlines()[2][:96]} ...")
    console.say(f"both say: {fast.answers[1].text.strip().splitlines()[0][:96]} ...")
    measured = race_table.table(runs)
    console.say(measured)
    console.say(race_table.strips(runs))
    copies, prose = (
        fast.tokens_per_second(kinds) / standard.tokens_per_second(kinds)
        for kinds in (("edit", "copy"), ("prose",))
    )
    console.say(
        f"fast / standard = {copies:.2f} on edits and copies, {prose:.2f} on prose; the text of both is the same"
    )
    return measured


def _pods(tools: Tools, speed: str) -> set[str]:
    return {
        pod["metadata"]["uid"]
        for pod in tools.objects("pods", f"tierwright.dev/tier=smollm2-{speed}")
        if "deletionTimestamp" not in pod["metadata"]
    }


def _edit_batch_size(console: Console, tools: Tools) -> None:
    before = {speed: _pods(tools, speed) for speed in SPEEDS}
    edit = '{"spec":{"engine":{"batching":{"maxSequences":2}}}}'
    console.say(tools.kubectl("patch", "itier", "smollm2-fast", "--type=merge", "-p", edit))
    tools.wait(lambda: not (_pods(tools, "fast") & before["fast"]), "the fast tier's old pod is gone", 600)
    tools.kubectl("wait", "--for=condition=Ready", "itier", "smollm2-fast", "--timeout=600s")
    tools.wait(
        lambda: len(_pods(tools, "fast")) == len(before["fast"]), "the fast tier's new pod is there", 600
    )
    if _pods(tools, "standard") != before["standard"]:
        raise CommandError("the standard tier's pods were touched by an edit of the fast tier")
    arguments = tools.objects("pods", "tierwright.dev/tier=smollm2-fast")[0]["spec"]["containers"][0]["args"]
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


def _say_how_to_look_around(
    console: Console, operator: str = f"kubectl -n {SYSTEM} logs deployment/tierwright-operator -f"
) -> None:
    console.say(f"{_ENVIRONMENT}     # KUBECONFIG, and kubectl and helm on the PATH")
    console.say(f"kubectl -n {NAME} get itier -o wide")
    console.say(f"kubectl -n {NAME} describe itier smollm2-fast")
    console.say(f"kubectl -n {NAME} scale itier smollm2-standard --replicas=2")
    console.say(operator)
    console.say(f".venv/bin/python -m dev.cluster down --name {NAME}     # when you are done")
