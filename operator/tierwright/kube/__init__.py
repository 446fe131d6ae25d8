"""How to talk to Kubernetes: a small client over plain dicts, server-side apply and Events."""
