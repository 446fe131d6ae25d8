"""One value has one digest: no order of keys changes it, every field does, and it stays what stored objects hold."""

import pytest

from tierwright.desired.canonical import canonical_json, digest


def test_the_order_of_keys_changes_nothing() -> None:
    value = {"b": [1, {"d": None, "c": "x"}], "a": True}
    assert canonical_json(value) == '{"a":true,"b":[1,{"c":"x","d":null}]}'
    assert digest(value) == digest({"a": True, "b": [1, {"c": "x", "d": None}]})


@pytest.mark.parametrize(
    "other", [{"a": 1, "b": 3}, {"a": 1}, {"a": "1", "b": 2}, {"a": 1, "b": 2, "c": None}]
)
def test_every_field_counts(other: object) -> None:
    assert digest({"a": 1, "b": 2}) != digest(other)


def test_the_digest_is_what_annotations_and_statuses_of_released_versions_hold() -> None:
    """A digest that came out otherwise would make every child look edited, and lose each tier the image in use."""
    assert digest({"kind": "Service", "spec": {"ports": [8000]}}) == "20454f014cdd6660"


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError):
        digest({"a": {1, 2}})
