"""A real node for a control plane: kubelet, kube-proxy, containerd, runc, CNI."""

from tools.realnode.bridge import bridge
from tools.realnode.node import RealNode, api_server_flags, why_not

__all__ = ["RealNode", "api_server_flags", "bridge", "why_not"]
