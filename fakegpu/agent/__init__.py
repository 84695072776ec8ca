"""``python -m fakegpu node``: one node's devices, for its kubelet, its pods and Prometheus."""
