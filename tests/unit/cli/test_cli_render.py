"""``tierwright render`` prints children that can be applied, or everything that is wrong, each with its place and fix."""

import io
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from tests.support.documents import ROOT
from tests.support.tier_bundles import tier_object
from tests.support.tiers.cases import tier
from tests.support.tiers.generate import specs
from tierwright.cli import main
from tierwright.cli.documents import Input
from tierwright.cli.render import RenderResult, render_documents, run
from tierwright.cli.yaml_text import dump
from tierwright.desired.bundle import BundleContext


def document(name: str = "llama-fast", speed: str = "fast", **spec: Any) -> str:
    return yaml.safe_dump(tier_object(name=name, **{"speed": speed, **spec}))


def render(*texts: str) -> RenderResult:
    inputs = [Input(f"{index}.yaml", text) for index, text in enumerate(texts)]
    return render_documents(inputs, BundleContext())


def test_children_can_be_read_back_as_they_were_made() -> None:
    result = render(document())
    assert not result.errors
    assert tuple(yaml.safe_load_all(dump(result.children))) == result.children
    assert [child["kind"] for child in result.children][-1] == "Deployment"


def test_scripts_are_printed_as_lines_that_a_person_can_read() -> None:
    text = dump(render(document()).children)
    assert "\n          import pathlib\n" in text
    assert "\\n" not in text


def test_nothing_is_printed_by_reference() -> None:
    assert "&id" not in dump(render(document()).children)


def test_several_documents_of_several_files_are_rendered_in_their_order() -> None:
    two = "---\n".join([document("a", "fast"), document("b", "standard")])
    result = render(two, document("c", "slow"))
    assert not result.errors
    workloads = [child["metadata"]["name"] for child in result.children if child["kind"] == "Deployment"]
    assert workloads == ["a", "b", "c"]


def test_empty_documents_and_comments_are_passed_over() -> None:
    result = render(f"# a comment\n---\n---\n{document()}\n---\n# the end\n")
    assert not result.errors
    assert result.children


def test_every_error_of_every_document_is_told_at_once() -> None:
    broken = document("a", engine={"maxModelLen": 1}, replicas=-1)
    unreadable = "spec: [1, 2\nkind: x\n"
    unknown = document("c", modle={"name": "x"})
    result = render(
        "---\n".join([broken, unreadable, unknown]), document("d", hardware={"hosts": 2, "count": 2})
    )
    text = "\n".join(result.errors)
    assert not result.children
    assert "0.yaml, document 1: spec.replicas" in text
    assert "0.yaml, document 1: spec.engine.maxModelLen" in text
    assert "0.yaml, document 2: cannot be read as YAML" in text
    assert "0.yaml, document 3: spec.modle" in text
    assert "1.yaml, document 1: spec.hardware" in text


def test_one_broken_tier_keeps_the_children_of_all_from_being_applied() -> None:
    result = render(document("a", "fast"), document("b", "standard", replicas=-1))
    assert result.children == ()
    assert result.errors


def test_a_tier_that_cannot_be_built_yet_says_so_with_its_field() -> None:
    (error,) = render(document(engine={"type": "jax", "promptCache": {"scope": "Tenant"}})).errors
    assert error.startswith("0.yaml, document 1: spec.engine.promptCache.scope: ")
    assert "not built yet" in error


def test_all_that_cannot_be_built_of_one_tier_is_told_at_once() -> None:
    model = {"name": "m", "source": "s3://bucket/m"}
    errors = render(
        document(
            model=model,
            engine={"type": "vllm", "tensorParallel": 2, "promptCache": {"scope": "Tenant"}},
            hardware={"hosts": 2},
        )
    ).errors
    paths = [error.split(": ")[1] for error in errors]
    assert paths == ["spec.hardware.hosts", "spec.model.source", "spec.engine.promptCache.scope"]


def test_what_is_not_built_is_told_beside_broken_rules_and_unknown_fields() -> None:
    """Else a person mends all that was said, and meets the refusal that needs another engine only then."""
    engine = {"type": "vllm", "tensorParallel": 2, "jax": {"lengthBuckets": [512]}, "hosts": 1}
    hardware = {"accelerator": "neuron", "count": 1, "resources": {"memory": 4}}
    errors = render(document(engine=engine, hardware=hardware)).errors
    assert {error.split(": ")[1] for error in errors} == {
        "spec.engine.hosts",
        "spec.engine.jax",
        "spec.hardware.resources.memory",
        "spec.engine.type",
    }
    (not_built,) = [error for error in errors if ": spec.engine.type: " in error]
    assert "vllm on neuron is not supported yet" in not_built


def test_what_a_rule_says_of_a_field_is_not_said_twice() -> None:
    (error,) = render(document(model={"name": "m", "source": "gs://bucket/m"})).errors
    assert "gs:// and oci:// sources are not supported yet" in error


@settings(max_examples=200, deadline=None)
@given(content=specs())
def test_any_tier_of_readable_fields_gets_children_or_errors(content: dict[str, Any]) -> None:
    result = render(yaml.safe_dump(tier(content)))
    assert bool(result.errors) != bool(result.children)


def namespaces(result: RenderResult) -> set[str]:
    return {child["metadata"]["namespace"] for child in result.children}


def test_the_namespace_given_is_that_of_tiers_that_name_none() -> None:
    nameless = document().replace("  namespace: serving\n", "")
    assert "namespace" not in nameless
    assert namespaces(render(nameless)) == {"default"}
    inputs = [Input("a.yaml", nameless), Input("b.yaml", document("b", "standard"))]
    result = render_documents(inputs, BundleContext(), "serving")
    assert not result.errors
    assert namespaces(result) == {"serving"}


def test_a_tier_of_another_namespace_than_the_one_given_is_an_error() -> None:
    (error,) = render_documents([Input("a.yaml", document())], BundleContext(), "team-a").errors
    assert error.endswith("metadata.namespace: is serving, but --namespace says team-a; remove one of them")
    for text in ("just text", "kind: InferenceTier\nmetadata: text\n"):
        assert render_documents([Input("a.yaml", text)], BundleContext(), "team-a").errors


def test_the_namespace_is_given_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tier.yaml"
    path.write_text(document().replace("  namespace: serving\n", ""))
    assert main(["render", "-n", "team-a", "-f", str(path)]) == 0
    children = list(yaml.safe_load_all(capsys.readouterr().out))
    assert {child["metadata"]["namespace"] for child in children} == {"team-a"}
    assert main(["render", "--namespace", "A B", "-f", str(path)]) == 1
    assert 'metadata.namespace: is "A B"; write the name of a namespace' in capsys.readouterr().err


def test_the_workers_own_image_is_warned_of_until_somebody_says_where_it_is() -> None:
    def warned(context: BundleContext, **engine: Any) -> bool:
        text = document(engine={"type": "jax", **engine})
        warnings = render_documents([Input("a.yaml", text)], context).warnings
        return any("a.yaml, document 1: spec.engine.image: localhost/" in each for each in warnings)

    assert warned(BundleContext())
    assert not warned(BundleContext(), image="registry.example.com/worker:0.1.0-cuda")
    assert not warned(BundleContext(worker_repository="registry.example.com/worker"))
    assert not warned(BundleContext(), type="vllm")


def test_what_nothing_acts_on_yet_is_warned_of() -> None:
    path = ROOT / "docs" / "samples" / "nvidia-fast.yaml"
    warnings = render(path.read_text(encoding="utf-8")).warnings
    assert [each.split(": ")[1] for each in warnings] == ["spec.traffic"]


def test_unreadable_yaml_is_placed_by_line_and_column_of_the_file() -> None:
    (error,) = render(f"{document()}---\nkind: InferenceTier\nspec: {{a: [}}\n").errors
    line = document().count("\n") + 3
    assert f"document 2: cannot be read as YAML: line {line}, column" in error


def test_characters_that_yaml_forbids_are_an_error_and_not_a_crash() -> None:
    (error,) = render("kind: \x00\n").errors
    assert "cannot be read as YAML" in error


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("spec: {replicas: 1, replicas: 2}", "the key replicas stands twice"),
        ("spec: {on: [RateLimited]}", "YAML does not read the key on as text; the field is called when"),
        ("spec: {yes: a}", 'quote it: "yes"'),
        ("spec: {1: a}", 'quote it: "1"'),
        ("spec: {[a]: b}", "a key must be text"),
    ],
)
def test_what_yaml_readers_pass_over_in_silence_is_an_error(text: str, words: str) -> None:
    (error,) = render(text).errors
    assert words in error


def test_yaml_merge_keys_are_understood() -> None:
    text = document().replace("  speed: fast", "  <<: {speed: fast}")
    assert "<<" in text
    assert not render(text).errors


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n---\n"])
def test_a_file_without_a_tier_is_an_error(text: str) -> None:
    (error,) = render(text).errors
    assert error.startswith("0.yaml: holds no InferenceTier")


@pytest.mark.parametrize("text", ["just text", "- a\n- b\n", "42"])
def test_a_document_that_is_no_object_is_an_error(text: str) -> None:
    (error,) = render(text).errors
    assert error.startswith("0.yaml, document 1: ")
    assert ": :" not in error


def test_other_objects_beside_a_tier_are_left_out_with_a_warning() -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: hf}\n"
    result = render(f"{secret}---\n{document()}")
    assert not result.errors
    assert result.warnings[0] == "0.yaml, document 1: Secret is no InferenceTier and was left out"
    assert all(warning.startswith("0.yaml, document 2: spec.") for warning in result.warnings[1:])


def test_a_file_of_other_objects_alone_is_an_error() -> None:
    result = render("apiVersion: v1\nkind: Secret\nmetadata: {name: hf}\n")
    assert result.errors


def test_a_misspelt_kind_of_our_group_is_an_error() -> None:
    result = render(document().replace("kind: InferenceTier", "kind: InferenceTeir"))
    assert any("kind" in error for error in result.errors)


def test_a_list_as_kubectl_prints_it_is_rendered() -> None:
    items = [tier_object(name="a"), {**tier_object(name="b"), "status": {"readyReplicas": 1}}]
    items[1]["spec"]["speed"] = "standard"
    result = render(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    assert not result.errors
    assert len([child for child in result.children if child["kind"] == "Deployment"]) == 2


def test_an_item_of_a_list_is_named_in_its_errors() -> None:
    items = [tier_object(name="a"), tier_object(name="b", replicas=-1)]
    result = render(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    assert result.errors[0].startswith("0.yaml, document 1, items[1]: spec.replicas")


def test_two_tiers_of_one_name_are_an_error() -> None:
    result = render(document("a", "fast"), document("a", "standard"))
    (error,) = result.errors
    assert error.startswith("1.yaml, document 1: metadata.name")
    assert "0.yaml, document 1" in error


def test_two_tiers_of_one_model_and_speed_are_an_error() -> None:
    (error,) = render(document("a"), document("b")).errors
    assert error.startswith("1.yaml, document 1: spec.speed")
    assert "0.yaml, document 1" in error


def test_warnings_of_a_tier_say_which_tier() -> None:
    warnings = render(document(engine={"version": "0.20.0"})).warnings
    assert any(warning.startswith("0.yaml, document 1: spec.engine.version") for warning in warnings)


def test_children_go_to_stdout_and_warnings_to_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tier.yaml"
    path.write_text(document(engine={"version": "0.20.0"}))
    assert main(["render", "-f", str(path)]) == 0
    out, err = capsys.readouterr()
    assert list(yaml.safe_load_all(out))[-1]["kind"] == "Deployment"
    assert err.startswith("warning: ")


def test_errors_go_to_stderr_and_nothing_to_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(document("a"))
    bad.write_text(document("b", "standard", replicas=-1))
    assert main(["render", "-f", str(good), "-f", str(bad)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"error: {bad}, document 1: spec.replicas" in err


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(document(replicas=-1)))
    assert run(["-"], BundleContext()) == 1
    assert "error: stdin, document 1: spec.replicas" in capsys.readouterr().err


def test_files_that_cannot_be_read_are_told_beside_all_other_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    binary, bad = tmp_path / "binary", tmp_path / "bad.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    bad.write_text(document(replicas=-1))
    missing = tmp_path / "missing.yaml"
    assert run([str(missing), str(binary), str(bad)], BundleContext()) == 1
    err = capsys.readouterr().err
    assert f"{missing}: cannot be read: No such file or directory" in err
    assert f"{binary}: is no UTF-8 text" in err
    assert "spec.replicas" in err


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("2024-99-99", "this cannot be read as YAML's timestamp; quote it"),
        ("!!timestamp soon", "this cannot be read as YAML's timestamp"),
        ("!!int many", "this cannot be read as YAML's int"),
        ("!!float many", "this cannot be read as YAML's float"),
        ("!!bool perhaps", "this cannot be read as YAML's bool"),
        ("9" * 5000, "this cannot be read as YAML's int"),
    ],
)
def test_a_scalar_that_the_yaml_reader_stumbles_over_is_an_error_with_its_place(
    value: str, words: str
) -> None:
    (error,) = render(f"kind: InferenceTier\nspeed: {value}\n").errors
    assert error.startswith("0.yaml, document 1: cannot be read as YAML: line 2, column 8: ")
    assert words in error


def test_what_is_nested_without_end_is_an_error_and_not_a_crash() -> None:
    (error,) = render("[" * 20_000).errors
    assert error == "0.yaml, document 1: cannot be read as YAML: it is nested too deeply"
    nested = "{a: " * 250 + "b" + "}" * 250
    (error,) = render(f"{document()}  podTemplate: {nested}\n").errors
    assert "spec: is nested too deeply for a tier" in error


@pytest.mark.parametrize(
    "text",
    [
        "&a [*a]",
        "spec: &a {podTemplate: *a}",
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{now}: &{now} [{','.join([f'*{last}'] * 9)}]\n" for last, now in pairwise("abcdefghi")),
    ],
)
def test_aliases_that_grow_without_end_are_an_error_and_cost_no_memory(text: str) -> None:
    (error,) = render(text).errors
    assert "values once its aliases are followed" in error


def test_aliases_that_stay_small_are_understood() -> None:
    text = document().replace("  speed: fast", "  speed: &speed fast")
    assert not render(f"{text}  podTemplate: {{metadata: {{annotations: {{speed: *speed}}}}}}\n").errors


def test_a_namespace_that_cannot_exist_is_an_error() -> None:
    text = document().replace("namespace: serving", "namespace: A B/../c")
    (error,) = render(text).errors
    assert 'metadata.namespace: is "A B/../c"; write the name of a namespace' in error


def test_half_a_surrogate_pair_is_an_error_with_words_for_it() -> None:
    (error,) = render(f'{document()}  podTemplate: {{metadata: {{annotations: {{a: "\\ud800"}}}}}}\n').errors
    assert "half of a pair of surrogates" in error


def test_output_that_nobody_can_take_is_an_error_and_not_a_traceback(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    file = tmp_path / "tier.yaml"
    file.write_text(document(), encoding="utf-8")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tierwright", "render", "-f", str(file)],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT / "operator")},
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "error: the output cannot be written: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_output_is_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    file = tmp_path / "tier.yaml"
    file.write_text(
        f"{document()}  podTemplate: {{metadata: {{annotations: {{a: приве́т}}}}}}\n", encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-m", "tierwright", "render", "-f", str(file)],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "operator"), "PYTHONIOENCODING": "ascii"},
        check=True,
    )
    assert "приве́т" in done.stdout.decode("utf-8")


def engine_images(text: str) -> set[str]:
    deployments = [each for each in yaml.safe_load_all(text) if each["kind"] == "Deployment"]
    pods = [each["spec"]["template"]["spec"] for each in deployments]
    return {container["image"] for pod in pods for container in pod["containers"]}


def test_images_of_the_worker_are_those_that_the_operator_is_told_to_take(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["render", "-f", str(ROOT / "docs" / "samples" / "nvidia-jax.yaml")]
    monkeypatch.setenv("TIERWRIGHT_WORKER_REPOSITORY", "registry.example.com/variable/worker")
    monkeypatch.setenv("TIERWRIGHT_RESYNC_SECONDS", "never")
    assert main(arguments) == 0
    (of_the_variable,) = engine_images(capsys.readouterr().out)
    assert of_the_variable.startswith("registry.example.com/variable/worker:")
    assert main([*arguments, "--worker-repository", "registry.example.com/flag/worker"]) == 0
    (of_the_flag,) = engine_images(capsys.readouterr().out)
    assert of_the_flag.startswith("registry.example.com/flag/worker:")


def test_a_repository_that_is_none_is_said_before_anything_is_rendered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["render", "-f", "-", "--worker-repository", "worker:latest@x"]) == 2
    told = capsys.readouterr()
    assert not told.out
    assert "--worker-repository='worker:latest@x'" in told.err
