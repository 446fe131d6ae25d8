"""Rules on what the gateway does with requests: a fallback leads elsewhere, limits let something through."""

from typing import Final

from tierwright.api.rules.rule import AnyRule, Rule, quantity
from tierwright.api.scalars import duration_seconds, quantity_value
from tierwright.api.tier import TierSpec
from tierwright.api.traffic import Fallback, TenantLimits

_TIMEOUT: Final = "FirstTokenTimeout"


def _leads_elsewhere(spec: TierSpec) -> bool:
    traffic = spec.traffic
    return traffic is None or traffic.fallback is None or traffic.fallback.to != spec.speed


def _tokens_let_through(field: str, attribute: str) -> AnyRule:
    def holds(limits: TenantLimits) -> bool:
        limit: str | None = getattr(limits, attribute)
        return limit is None or quantity_value(limit) >= 1

    return Rule[TenantLimits](
        at="spec.traffic.limitsPerTenant",
        field=field,
        cel=f"!has(self.{field}) || {quantity('self.' + field)}.compareTo(quantity('1')) >= 0",
        message="a limit below one token lets nothing through; write tokens per minute, such as 400k or 2M",
        holds=holds,
    )


RULES: Final[tuple[AnyRule, ...]] = (
    Rule[TierSpec](
        at="spec",
        field="traffic.fallback.to",
        cel="!has(self.traffic) || !has(self.traffic.fallback) || self.traffic.fallback.to != self.speed",
        message="a tier cannot fall back to itself; name another speed of the model",
        holds=_leads_elsewhere,
    ),
    Rule[Fallback](
        at="spec.traffic.fallback",
        field="firstTokenTimeout",
        cel=f"!('{_TIMEOUT}' in self.when) || has(self.firstTokenTimeout)",
        message="falling back on FirstTokenTimeout needs firstTokenTimeout; set how long to wait",
        holds=lambda fallback: _TIMEOUT not in fallback.when or fallback.first_token_timeout is not None,
        reason="FieldValueRequired",
    ),
    Rule[Fallback](
        at="spec.traffic.fallback",
        field="firstTokenTimeout",
        cel=f"'{_TIMEOUT}' in self.when || !has(self.firstTokenTimeout)",
        message="firstTokenTimeout is not used; add FirstTokenTimeout to when, or remove it",
        holds=lambda fallback: _TIMEOUT in fallback.when or fallback.first_token_timeout is None,
    ),
    Rule[Fallback](
        at="spec.traffic.fallback",
        field="firstTokenTimeout",
        cel="!has(self.firstTokenTimeout) || duration(self.firstTokenTimeout) > duration('0s')",
        message="no first token comes in zero time; set a time above zero",
        holds=lambda fallback: (
            fallback.first_token_timeout is None or duration_seconds(fallback.first_token_timeout) > 0
        ),
    ),
    _tokens_let_through("inputTokensPerMinute", "input_tokens_per_minute"),
    _tokens_let_through("outputTokensPerMinute", "output_tokens_per_minute"),
)
