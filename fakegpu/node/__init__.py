"""One node's face, as pure functions: hardware, MIG layout, who uses it, labels and capacity."""
