"""Rules on the pods' identity: annotations go to the ServiceAccount that the operator makes, and must be annotations."""

from typing import Final

from tierwright.api.rules.keys import is_key, key_cel
from tierwright.api.rules.rule import AnyRule, Rule
from tierwright.api.tier import ServiceAccountSpec

RULES: Final[tuple[AnyRule, ...]] = (
    Rule[ServiceAccountSpec](
        at="spec.pod.serviceAccount",
        field="annotations",
        cel="!has(self.name) || !has(self.annotations) || self.annotations.size() == 0",
        message=(
            "an existing ServiceAccount is used as it is; annotate that one, or remove name so that the operator "
            "makes one with these annotations"
        ),
        holds=lambda account: account.name is None or not account.annotations,
    ),
    Rule[ServiceAccountSpec](
        at="spec.pod.serviceAccount",
        field="annotations",
        cel=f"!has(self.annotations) || self.annotations.all(key, {key_cel('key')})",
        message="a key is no annotation key; write prefix/name, such as eks.amazonaws.com/role-arn",
        holds=lambda account: all(is_key(key) for key in account.annotations),
    ),
)
