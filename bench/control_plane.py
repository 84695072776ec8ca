"""The control plane of the scheduler benchmarks: an API server without kubelets."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.controlplane import ControlPlane
from tools.controlplane.commands import API_SERVER, ETCD


@contextmanager
def without_kubelets() -> Iterator[tuple[ControlPlane, Path]]:
    """A control plane and a temporary directory; both are removed at the end."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        # These nodes have no heartbeats: without the plugin and the node controller they stay
        # ready. Nothing takes the finalizers of deleted claims and volumes away.
        plane = ControlPlane.start(
            Path(folder) / "plane",
            components={ETCD, API_SERVER},
            kwok=False,
            disable_admission=["TaintNodesByCondition", "StorageObjectInUseProtection"],
        )
        with plane:
            yield plane, Path(folder)
