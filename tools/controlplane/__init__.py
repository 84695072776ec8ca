"""A real Kubernetes control plane without a container engine, for tests, demo and benchmarks.

    with ControlPlane.start(directory) as cp:
        cp.kubectl("get", "nodes")

The programs are found or built (``binaries``), started on free loopback ports (``fleet``) and ended
by their process ids. Nodes are played by KWOK (``fakenodes``). Nothing of the product may import
this package, except ``gpuctl demo``, whose purpose it is to show the product on it.
"""

from tools.controlplane.binaries import ensure, missing
from tools.controlplane.client import ApiError, Client, wait_until
from tools.controlplane.control_plane import DEFAULT_COMPONENTS, ControlPlane
from tools.controlplane.errors import ControlPlaneError, ProcessDied
from tools.controlplane.fake_nodes import FakeNode, add_nodes

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
