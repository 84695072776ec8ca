"""MIG on a fake node: repartitioning by configuration or on request, and what can be created."""
