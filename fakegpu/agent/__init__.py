"""``python -m fakegpu node``: serves one node's devices to its kubelet, pods and Prometheus."""
