"""The live run: the real API server and kube-scheduler, and our side as its only extender."""
