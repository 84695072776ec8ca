"""Events, conditions, metrics, and why a pod got its node."""
