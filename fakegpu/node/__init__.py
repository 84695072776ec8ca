"""One node as pure functions: hardware, MIG layout, allocations, labels and capacity."""
