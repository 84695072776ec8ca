"""A real node for a control plane of this package: kubelet, containerd, runc and CNI plugins."""

from tools.controlplane.realnode.node import RealNode, api_server_flags, why_not

__all__ = ["RealNode", "api_server_flags", "why_not"]
