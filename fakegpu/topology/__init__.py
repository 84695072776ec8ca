"""The user's pools of GPUs, and the topology of one node."""
