"""Nodes, pods and queue as last seen; one writer."""
