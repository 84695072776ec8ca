"""Pods that fit nowhere: their conditions, and what they cost other pods."""
