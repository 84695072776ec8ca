"""Which devices the claims of a pod get on one node."""
