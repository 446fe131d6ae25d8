"""Every field that holds quantities is compared by its amount, and no user's patch may set one without bound."""

from typing import Any

import pytest

from tierwright.control.containment import differences
from tierwright.desired.patch_guard import patched_pod_template
from tierwright.desired.quantity_fields import QUANTITY_FIELDS, QUANTITY_MAPS
from tierwright.hardware.refusal import RefusedError

Object = dict[str, Any]


def holding(amount: str) -> list[Object]:
    """Each such field with this amount in it."""
    return [{name: {"cpu": amount}} for name in sorted(QUANTITY_MAPS)] + [
        {name: amount} for name in sorted(QUANTITY_FIELDS)
    ]


@pytest.mark.parametrize(
    ("ours", "live", "more"),
    list(zip(holding("1000m"), holding("1"), holding("2"), strict=True)),
    ids=[str(*each) for each in holding("1000m")],
)
def test_an_amount_in_other_words_is_no_drift_and_another_amount_is(
    ours: Object, live: Object, more: Object
) -> None:
    assert differences({"spec": ours}, {"spec": live}) == ()
    assert len(differences({"spec": ours}, {"spec": more})) == 1


@pytest.mark.parametrize("vast", holding("1e99999999"), ids=[str(*each) for each in holding("")])
def test_an_amount_without_bound_is_refused(vast: Object) -> None:
    template = {"metadata": {"labels": {}}, "spec": {"containers": []}}
    with pytest.raises(RefusedError, match="no amount that a node can have"):
        patched_pod_template(template, {"spec": vast}, {})
