"""A real Kubernetes control plane without a container engine, for tests, demo and benchmarks.

    with ControlPlane.start(directory) as cp:
        cp.kubectl("get", "nodes")

The programs are found or built (``programs``), started on free loopback ports (``components``) and
stopped by their process ids. KWOK simulates the nodes (``fake_nodes``). The product must not import
this package.
"""

from tools.controlplane.client import ApiError, Client, wait_until
from tools.controlplane.control_plane import DEFAULT_COMPONENTS, ControlPlane
from tools.controlplane.errors import ControlPlaneError, ProcessDied
from tools.controlplane.fake_nodes import FakeNode, add_nodes
from tools.controlplane.programs.binaries import ensure, missing

__all__ = [
    "DEFAULT_COMPONENTS",
    "ApiError",
    "Client",
    "ControlPlane",
    "ControlPlaneError",
    "FakeNode",
    "ProcessDied",
    "add_nodes",
    "ensure",
    "missing",
    "wait_until",
]
