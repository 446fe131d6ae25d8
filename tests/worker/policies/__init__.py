"""Tests of the engine's policies: tables, laws as properties, and statistics against plain sampling."""
