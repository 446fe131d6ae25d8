"""What the gateway enforces for the tier: limits, fallback and price."""

from typing import Annotated, Literal

from pydantic import Field

from tierwright.api import patterns
from tierwright.api.base import ApiModel
from tierwright.api.markers import ListSet
from tierwright.api.scalars import Duration, PositiveDecimal, Quantity

Speed = Annotated[str, Field(pattern=patterns.SPEED, min_length=1, max_length=32)]
FallbackReason = Literal["RateLimited", "Overloaded", "Unavailable", "FirstTokenTimeout"]


class TenantLimits(ApiModel):
    """Limits of each tenant on this tier."""

    requests_per_minute: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Requests per minute."""
    input_tokens_per_minute: Quantity | None = None
    """Prompt tokens per minute, such as 2M."""
    output_tokens_per_minute: Quantity | None = None
    """Output tokens per minute, such as 400k."""


class Fallback(ApiModel):
    """Where requests go that this tier cannot take."""

    to: Speed
    """Speed of the tier of the same model that takes over."""
    when: Annotated[list[FallbackReason], Field(min_length=1, max_length=4), ListSet()]
    """What makes a request fall back. (Not called on, since YAML reads that as true.)"""
    first_token_timeout: Duration | None = None
    """Wait for the first token before FirstTokenTimeout falls back."""
    cooldown: Duration = "60s"
    """How long the tier's traffic goes to the fallback once it has failed."""


class TrafficSpec(ApiModel):
    """How the gateway treats requests for the tier."""

    limits_per_tenant: TenantLimits | None = None
    """Limits of each tenant. Not used yet: for the gateway (condition Routed)."""
    fallback: Fallback | None = None
    """Where requests go that this tier cannot take. Not used yet: for the gateway (condition Routed)."""
    price_multiplier: PositiveDecimal | None = None
    """Price of a token of this tier as a multiple of the model's base price; weighs tiers that share a full pool. Not billed yet."""
