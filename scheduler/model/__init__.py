"""The model: pods, nodes, devices, MIG layouts and reasons as values."""
