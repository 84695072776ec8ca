"""A real node for a control plane of this package: kubelet, kube-proxy, containerd, runc, CNI."""

from tools.controlplane.realnode.bridge import bridge
from tools.controlplane.realnode.node import RealNode, api_server_flags, why_not

__all__ = ["RealNode", "api_server_flags", "bridge", "why_not"]
