"""kwok's Stage files are whole: every shared expression is filled in, and every stage says what it applies to."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.cluster.kwok import stages


def rendered() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(stages.render()))


def test_the_stages_have_unique_names_and_kinds_that_kwok_plays() -> None:
    names = [stage["metadata"]["name"] for stage in rendered()]
    assert len(names) == len(set(names))
    assert {stage["kind"] for stage in rendered()} == {"Stage"}
    assert {stage["spec"]["resourceRef"]["kind"] for stage in rendered()} == {"Node", "Pod"}


def test_no_shared_expression_is_left_open() -> None:
    assert not re.search(r"@[a-z_]+@", stages.render())


def test_an_unknown_shared_expression_is_named_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("key: '@no_such_thing@'\n")
    with pytest.raises(ValueError, match=r"pod\.yaml.*'no_such_thing'"):
        stages.render(tmp_path)


def test_every_pod_stage_looks_whether_the_pod_is_being_deleted() -> None:
    for stage in rendered():
        if stage["spec"]["resourceRef"]["kind"] == "Pod":
            first = stage["spec"]["selector"]["matchExpressions"][0]["jq"]
            assert "deletionTimestamp" in first["key"], stage["metadata"]["name"]
            assert first["values"] == (["false"] if stage["metadata"]["name"] == "pod-deleted" else ["true"])


def test_every_behaviour_is_one_that_a_stage_knows() -> None:
    text = stages.render()
    for behaviour in (
        "image-pull-failure",
        "crash-loop",
        "out-of-memory",
        "never-ready",
        "never-initialized",
    ):
        assert behaviour in text


def test_brackets_of_every_expression_and_template_are_balanced() -> None:
    for stage in rendered():
        spec = stage["spec"]
        keys = [expression["jq"]["key"] for expression in spec["selector"]["matchExpressions"]]
        keys += [step["patch"]["template"] for step in spec["steps"] if "patch" in step]
        for text in keys:
            for opening, closing in ("()", "[]", "{}"):
                assert text.count(opening) == text.count(closing), (stage["metadata"]["name"], text)
