"""Programs that ask the real Kubernetes code, and write its answers to tests/golden."""
