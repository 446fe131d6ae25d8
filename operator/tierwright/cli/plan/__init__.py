"""``tierwright plan``: reads tiers and a trace, searches the settings, and shows what they take."""
