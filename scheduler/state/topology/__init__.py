"""Pods counted per value of a node label, kept up to date by events, for affinity and spread."""
