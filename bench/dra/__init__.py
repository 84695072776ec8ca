"""Pods with claims, pods with extended resources, and the churn of MIG partitions."""
