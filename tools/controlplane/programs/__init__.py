"""Finds or builds the pinned programs of a control plane, a node and ArgoCD."""
