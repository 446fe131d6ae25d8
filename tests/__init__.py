"""Tests of Tierwright: unit (no cluster), integration (control plane and kwok), e2e (real nodes)."""
