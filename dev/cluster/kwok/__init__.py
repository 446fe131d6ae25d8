"""Nodes and pods that kwok plays without processes."""
