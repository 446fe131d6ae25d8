"""The warnings of a tier: those of its settings and those of its engine come together."""

from tests.support.tier_bundles import bundle_of, tier


def test_the_engines_warnings_come_before_those_of_the_settings() -> None:
    warnings = bundle_of(tier("nvidia", engine={"version": "0.20.0"}, hardware={"nodePool": {}})).warnings
    assert warnings[0].startswith("spec.engine.version:")
    assert any(warning.startswith("spec.hardware.nodePool:") for warning in warnings[1:])
