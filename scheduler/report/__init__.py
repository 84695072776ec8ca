"""Events, conditions, metrics, and explanations of decisions."""
