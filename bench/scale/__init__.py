"""One scheduler process, and both schedulers, in large clusters."""
