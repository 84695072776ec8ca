"""The catalog of real GPUs, so that a pool needs only a product name."""
