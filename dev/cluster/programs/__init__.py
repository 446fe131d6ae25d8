"""Where the programs come from: Kubernetes and kwok from pinned Go modules, kubectl, helm and Go from PATH or packages."""
