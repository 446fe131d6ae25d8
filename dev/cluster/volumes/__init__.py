"""Volumes for claims, on real and on played nodes alike."""
