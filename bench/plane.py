"""The control plane that benchmarks of the scheduler alone stand on: an API server, no kubelets."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.controlplane import ControlPlane
from tools.controlplane.commands import API_SERVER, ETCD


@contextmanager
def without_kubelets() -> Iterator[tuple[ControlPlane, Path]]:
    """It runs, and a folder for whoever runs on it; both are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        # Nobody heartbeats for these nodes: without the plugin and the node controller they
        # stay as ready as they were made.
        plane = ControlPlane.start(
            Path(folder) / "plane",
            components={ETCD, API_SERVER},
            kwok=False,
            disable_admission=["TaintNodesByCondition"],
        )
        with plane:
            yield plane, Path(folder)
