"""Real products: what a GPU of that name has, so that pools need no more than a name."""
