"""What is: the store of live objects and the snapshot that one reconcile reads."""
