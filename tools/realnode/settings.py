"""The configuration files of one real node: pure functions from paths to text.

The differences from a cluster's node adapt it to any machine: no eviction by disk, no swap check,
cgroupfs as the driver, and containers that inherit oom_score_adj.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.controlplane.ports import LOOPBACK

PAUSE_IMAGE: Final = "localhost/pause:1"
POD_CIDR: Final = "10.244.0.0/24"
BRIDGE: Final = "cni0"
BRIDGE_ADDRESS: Final = "10.244.0.1"
#: The fixed path; in the sandbox it is a directory of ours.
CONTAINERD_STATE: Final = Path("/run/containerd")
CONTAINERD_SOCKET: Final = CONTAINERD_STATE / "containerd.sock"
CDI: Final = Path("/var/run/cdi")


@dataclass(frozen=True, slots=True)
class Places:
    """The paths of one node."""

    directory: Path

    @property
    def binds(self) -> dict[Path, Path]:
        """Our directories -> the fixed paths in the sandbox."""
        return {
            self.directory / "kubelet": Path("/var/lib/kubelet"),
            self.directory / "run": CONTAINERD_STATE,
            self.directory / "pod-logs": Path("/var/log/pods"),
            self.directory / "container-logs": Path("/var/log/containers"),
            self.directory / "cni-state": Path("/var/lib/cni"),
            self.directory / "cdi": CDI,
            self.directory / "runai": Path("/var/lib/runai"),
        }

    def file(self, name: str) -> Path:
        """A configuration file."""
        return self.directory / "etc" / name

    def log(self, name: str) -> Path:
        """The log of one program."""
        return self.directory / "logs" / f"{name}.log"

    @property
    def plugins(self) -> Path:
        """The directory with the CNI plugins."""
        return self.directory / "cni-plugins"

    @property
    def networks(self) -> Path:
        """The directory with the CNI configuration."""
        return self.directory / "etc" / "cni"


def containerd(places: Places, runc: Path, snapshotter: str) -> str:
    """containerd's configuration, version 3."""
    cri = "io.containerd.cri.v1"
    return "\n".join(
        (
            "version = 3",
            f"root = {_text(places.directory / 'containerd')}",
            f"state = {_text(CONTAINERD_STATE)}",
            "[grpc]",
            f"address = {_text(CONTAINERD_SOCKET)}",
            f"[plugins.'{cri}.images']",
            f"snapshotter = {_text(snapshotter)}",
            f"[plugins.'{cri}.images'.pinned_images]",
            f"sandbox = {_text(PAUSE_IMAGE)}",
            f"[plugins.'{cri}.runtime']",
            "restrict_oom_score_adj = true",
            "enable_cdi = true",
            f"cdi_spec_dirs = [{_text(CDI)}]",
            f"[plugins.'{cri}.runtime'.containerd]",
            'default_runtime_name = "runc"',
            f"[plugins.'{cri}.runtime'.containerd.runtimes.runc]",
            'runtime_type = "io.containerd.runc.v2"',
            f"[plugins.'{cri}.runtime'.containerd.runtimes.runc.options]",
            f"BinaryName = {_text(runc)}",
            "SystemdCgroup = false",
            f"[plugins.'{cri}.runtime'.cni]",
            f"bin_dirs = [{_text(places.plugins)}]",
            f"conf_dir = {_text(places.networks)}",
            "",
        )
    )


def _text(value: object) -> str:
    # A JSON string is a valid TOML string.
    return json.dumps(str(value))


def network() -> str:
    """The CNI configuration: a bridge between the pods and this machine only."""
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": POD_CIDR}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    document = {"cniVersion": "1.0.0", "name": "gpu-scheduler", "plugins": [bridge, portmap]}
    return json.dumps(document, indent=2)


def proxy(kubeconfig: Path, node: str, health_port: int) -> str:
    """kube-proxy's configuration; it does not change the machine's conntrack limits."""
    document: dict[str, Any] = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "hostnameOverride": node,
        "mode": "iptables",
        "clusterCIDR": POD_CIDR,
        "healthzBindAddress": f"{LOOPBACK}:{health_port}",
        "metricsBindAddress": "",
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "iptables": {"minSyncPeriod": "100ms", "syncPeriod": "30s"},
    }
    return json.dumps(document, indent=2)


def kubelet(places: Places, authority: Path, port: int) -> str:
    """The kubelet's configuration."""
    document: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": BRIDGE_ADDRESS,
        "port": port,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "resolvConf": "",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "staticPodPath": "",
        # The defaults would slow down tests.
        "nodeStatusUpdateFrequency": "2s",
        "nodeStatusReportFrequency": "10s",
        "nodeLeaseDurationSeconds": 40,
        "syncFrequency": "10s",
        "shutdownGracePeriod": "0s",
        "serializeImagePulls": False,
        # Otherwise the kubelet leaves chains (KUBE-FIREWALL) in the machine's tables.
        "makeIPTablesUtilChains": False,
        "volumePluginDir": str(places.directory / "volume-plugins"),
    }
    return json.dumps(document, indent=2)
