"""The one failure of finding a cluster."""

from __future__ import annotations

from pathlib import Path


class NoCluster(Exception):
    """No cluster is reachable: no valid kubeconfig, and no ServiceAccount of a pod."""


def unreadable(where: str, path: Path | str, error: OSError) -> NoCluster:
    """A file that ``where`` names cannot be read."""
    return NoCluster(f"{where}: {path}: {error.strerror or error}")
