"""Scheduling decisions: the node of a pod, or the reasons why no node fits."""
