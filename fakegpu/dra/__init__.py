"""Dynamic resource allocation: slices that say what there is, claims that say who got it, and the
kubelet's plugin that brings it into containers."""
