"""Checks of a cluster with real pods, in a namespace that is removed afterwards."""
