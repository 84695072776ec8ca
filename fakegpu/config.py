"""Settings of the fake GPU operator, from its file.

Strict: an unknown key is rejected with its path.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from fakegpu import names
from scheduler.controllers.leadership.elector import Timings

API_VERSION: Final = "gpu-scheduler.io/v1"
KIND: Final = "FakeGpuConfiguration"
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
DraMode = Literal["none", "beside", "instead"]
Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=3600.0)]


class ConfigError(ValueError):
    """An invalid configuration: one line with the place and the problem."""


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A section of the file."""


class TopologyMap(_Part, frozen=True):
    """The ConfigMap with the pools; the ConfigMap of a node is ``<name>-<node>``."""

    name: str = names.TOPOLOGY_CM
    namespace: str = names.NAMESPACE


class NodeLabels(_Part, frozen=True):
    """Node labels: all or none. ``numbered`` also labels KWOK nodes with whole GPUs as
    index-assigned, so that the scheduler chooses GPUs by index."""

    enabled: bool = True
    numbered: bool = True


class PluginConfigMap(_Part, frozen=True):
    """The ConfigMap with the device plugin's configuration files; without a name: none."""

    name: str = "device-plugin-config"
    namespace: str = "kube-system"


class Mig(_Part, frozen=True):
    """The duration of a repartition in seconds, and the part of them that fails (0 to 1).

    ``partitionsNamespace`` is the scheduler's, in which it requests instances on nodes labelled
    ``gpu-scheduler.io/mig-dynamic=true``; empty: none.
    """

    latency_s: Seconds = 1.0
    failure_rate: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0
    partitions_namespace: str = ""


class NodeResourceTopology(_Part, frozen=True):
    """Whether to write a NodeResourceTopology per node; its CRD must exist."""

    enabled: bool = False


class Server(_Part, frozen=True):
    """The topology server. With a ``tokenFile`` clients must send the token in it."""

    host: str = "0.0.0.0"  # noqa: S104 - pods reach it through its Service
    port: Port = 8080
    token_file: str = ""


class Node(_Part, frozen=True):
    """The agent of a node: directories, metrics, and the Prometheus for request rates.

    ``hostFolder`` is the path of ``folder`` for the kubelet. Without a ``prometheusUrl`` pods that
    are measured by their requests (Knative) are idle. Without ``devicePlugin`` another component
    assigns the devices (DRA, a real plugin), without ``exporter`` another one serves the metrics.
    With a ``podResourcesFolder`` the agent serves a pod resources socket with NUMA zones in it.
    """

    device_plugin: bool = True
    exporter: bool = True
    pod_resources_folder: str = ""
    kubelet_folder: str = "/var/lib/kubelet"
    folder: str = "/var/lib/runai"
    host_folder: str = "/var/lib/runai"
    nvidia_smi: str = "/usr/local/bin/nvidia-smi"
    host: str = "0.0.0.0"  # noqa: S104 - Prometheus scrapes it
    port: Port = 9400
    export_interval_s: Seconds = 10.0
    prometheus_url: str = "http://prometheus-operated.runai:9090"


class Dra(_Part, frozen=True):
    """Dynamic Resource Allocation on nodes with a kubelet and on KWOK nodes: ``none``, ``beside``
    the device plugin (both account the same GPUs, like the former operator) or ``instead`` of it.

    ``partitionable``: MIG capable GPUs are also published as partitions, which are created when
    they are allocated. Empty folders default to those below ``node.kubeletFolder``.
    """

    kubelet: DraMode = "none"
    kwok: DraMode = "none"
    partitionable: bool = False
    cdi_folder: str = "/var/run/cdi"
    registrar_folder: str = ""
    plugins_folder: str = ""
    health_port: Port = 51515

    @property
    def is_on(self) -> bool:
        """Whether any slices are published."""
        return (self.kubelet, self.kwok) != ("none", "none")


class ComputeDomains(_Part, frozen=True):
    """Compute domains and their channels, on all nodes of pools; off by default."""

    enabled: bool = False
    cdi_folder: str = "/etc/cdi"
    health_port: Port = 8082


class LeaderElection(_Part, frozen=True):
    """The same as kube-scheduler's."""

    leader_elect: bool = True
    resource_name: str = names.OPERATOR
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0

    def timings(self) -> Timings:
        """In the form of the election's settings."""
        return Timings(self.lease_duration_s, self.renew_deadline_s, self.retry_period_s)


class Config(_Part, frozen=True):
    """The whole file."""

    api_version: str = API_VERSION
    kind: str = KIND
    topology: TopologyMap = TopologyMap()
    reservation_namespace: str = names.RESERVATION_NAMESPACE
    node_labels: NodeLabels = NodeLabels()
    device_plugin_config: PluginConfigMap = PluginConfigMap()
    mig: Mig = Mig()
    node_resource_topology: NodeResourceTopology = NodeResourceTopology()
    server: Server = Server()
    node: Node = Node()
    dra: Dra = Dra()
    compute_domains: ComputeDomains = ComputeDomains()
    leader_election: LeaderElection = LeaderElection()
    #: In parallel, so that one slow response does not delay other nodes.
    workers: Annotated[int, msgspec.Meta(ge=1, le=64)] = 12


def parse(content: bytes) -> Config:
    """A file's bytes (YAML)."""
    try:
        config: Config = msgspec.yaml.decode(content, type=Config, strict=True)
    except msgspec.MsgspecError as error:
        raise ConfigError(str(error)) from error
    if (config.api_version, config.kind) != (API_VERSION, KIND):
        raise ConfigError(
            f"expected apiVersion {API_VERSION} and kind {KIND},"
            f" got {config.api_version} {config.kind}"
        )
    if config.dra.partitionable and "beside" in (config.dra.kubelet, config.dra.kwok):
        raise ConfigError(
            "$.dra.partitionable: set dra.kubelet and dra.kwok to instead or none;"
            " a device plugin beside it would allocate the partitioned GPUs"
        )
    election = config.leader_election
    if not election.lease_duration_s > election.renew_deadline_s > election.retry_period_s > 0:
        raise ConfigError(
            "$.leaderElection: need leaseDurationS > renewDeadlineS > retryPeriodS > 0"
        )
    return config
