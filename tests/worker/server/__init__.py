"""Tests of the worker's HTTP server with the official SDKs, over a tiny engine that computes nothing."""
