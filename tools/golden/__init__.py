"""Programs that call the real Kubernetes code and write its results to tests/golden."""
