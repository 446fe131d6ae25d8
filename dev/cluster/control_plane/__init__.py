"""etcd, API server, controllers and scheduler of one cluster."""
