"""Settings of the fake GPU operator: a file, and over it the seed operator's environment.

Strict: an unknown key is refused with its path. The environment wins, as it did there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from fakegpu import names
from scheduler.leader import Timings

API_VERSION: Final = "gpu-scheduler.io/v1"
KIND: Final = "FakeGpuConfiguration"
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
DraMode = Literal["none", "beside", "instead"]
Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=3600.0)]


class ConfigError(ValueError):
    """A configuration that cannot be used; one line saying where and what."""


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A section of the file."""


class TopologyMap(_Part, frozen=True):
    """The ConfigMap with the pools; nodes' own are called ``<name>-<node>`` beside it."""

    name: str = names.TOPOLOGY_CM
    namespace: str = names.NAMESPACE


class NodeLabels(_Part, frozen=True):
    """Which labels nodes get: all or none; ``numbered`` also says, on KWOK nodes whose GPUs are
    whole, that the scheduler may choose GPUs by number."""

    enabled: bool = True
    numbered: bool = True


class PluginConfigMap(_Part, frozen=True):
    """The ConfigMap with the device plugin's configuration files; without a name: none."""

    name: str = "device-plugin-config"
    namespace: str = "kube-system"


class Mig(_Part, frozen=True):
    """How long a repartition takes (seconds), and which part of them fails (0 to 1).

    ``cutsNamespace`` is the scheduler's, where it asks for instances on nodes that are labelled
    ``gpu-scheduler.io/mig-dynamic=true``; empty: nobody asks.
    """

    latency_s: Seconds = 1.0
    failure_rate: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0
    cuts_namespace: str = ""


class NodeResourceTopology(_Part, frozen=True):
    """Whether a NodeResourceTopology tells each node's NUMA zones; its kind must exist."""

    enabled: bool = False


class Server(_Part, frozen=True):
    """The topology server. With a ``tokenFile``, who asks has to bear the token in it."""

    host: str = "0.0.0.0"  # noqa: S104 - pods ask it, through its Service
    port: Port = 8080
    token_file: str = ""


class Node(_Part, frozen=True):
    """The node's agent: folders of the machine, metrics, and whom to ask about requests.

    ``hostFolder`` is ``folder`` as the kubelet knows it. Without a ``prometheusUrl`` nobody is
    asked, and pods that are measured by their requests (Knative) are idle. Without ``devicePlugin``
    somebody else hands out the devices (DRA, a real plugin), without ``exporter`` somebody else
    tells the metrics.
    """

    device_plugin: bool = True
    exporter: bool = True
    kubelet_folder: str = "/var/lib/kubelet"
    folder: str = "/var/lib/runai"
    host_folder: str = "/var/lib/runai"
    nvidia_smi: str = "/usr/local/bin/nvidia-smi"
    host: str = "0.0.0.0"  # noqa: S104 - Prometheus asks it
    port: Port = 9400
    export_interval_s: Seconds = 10.0
    prometheus_url: str = "http://prometheus-operated.runai:9090"


class Dra(_Part, frozen=True):
    """Dynamic resource allocation, of nodes with a kubelet and of KWOK nodes each: ``none``,
    ``beside`` the device plugin (two books of the same GPUs, as with the seed operator) or
    ``instead`` of it.

    ``partitionable``: GPUs that can be cut are offered in every part too, and are cut as parts are
    allocated. Folders that are empty are the usual ones below ``node.kubeletFolder``.
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
        """Whether there is any."""
        return (self.kubelet, self.kwok) != ("none", "none")


class LeaderElection(_Part, frozen=True):
    """As kube-scheduler's."""

    leader_elect: bool = True
    resource_name: str = names.OPERATOR
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0

    def timings(self) -> Timings:
        """As the election takes them."""
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
    leader_election: LeaderElection = LeaderElection()
    #: At once, so that one slow answer holds up nobody else's node.
    workers: Annotated[int, msgspec.Meta(ge=1, le=64)] = 12


def load(path: Path | None, environment: Mapping[str, str]) -> Config:
    """The file, if there is one, and the environment over it; or ConfigError."""
    if path is None:
        return with_environment(Config(), environment)
    try:
        return with_environment(parse(path.read_bytes()), environment)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


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
            " a device plugin beside it would hand out what is cut"
        )
    election = config.leader_election
    if not election.lease_duration_s > election.renew_deadline_s > election.retry_period_s > 0:
        raise ConfigError(
            "$.leaderElection: need leaseDurationS > renewDeadlineS > retryPeriodS > 0"
        )
    return config


def with_environment(config: Config, environment: Mapping[str, str]) -> Config:
    """The variables of the seed operator, where they are set."""

    def changed(part: Any, **variables: str) -> Any:
        found = {key: environment[name] for key, name in variables.items() if environment.get(name)}
        return msgspec.structs.replace(part, **found)

    topology = changed(config.topology, namespace="FAKE_GPU_OPERATOR_NAMESPACE")
    topology = changed(topology, name="TOPOLOGY_CM_NAME", namespace="TOPOLOGY_CM_NAMESPACE")
    config = changed(config, reservation_namespace="RESOURCE_RESERVATION_NAMESPACE")
    labels, election = config.node_labels, config.leader_election
    node = changed(config.node, prometheus_url="PROMETHEUS_URL")
    if interval := environment.get("TOPOLOGY_MAX_EXPORT_INTERVAL"):
        node = msgspec.structs.replace(node, export_interval_s=_seconds(interval))
    if _is_true(environment, "DISABLE_NODE_LABELING"):
        labels = msgspec.structs.replace(labels, enabled=False)
    if _is_true(environment, "NODE_RESOURCE_TOPOLOGY_ENABLED"):
        zones = msgspec.structs.replace(config.node_resource_topology, enabled=True)
        config = msgspec.structs.replace(config, node_resource_topology=zones)
    if environment.get("LEADER_ELECT"):
        leads = _is_true(environment, "LEADER_ELECT")
        election = msgspec.structs.replace(election, leader_elect=leads)
    return msgspec.structs.replace(
        config, topology=topology, node_labels=labels, leader_election=election, node=node
    )


def _is_true(environment: Mapping[str, str], name: str) -> bool:
    text = environment.get(name, "").lower()
    if text not in ("", "true", "false", "1", "0"):
        raise ConfigError(f"environment {name}: expected true or false, got {text!r}")
    return text in ("true", "1")


def _seconds(text: str) -> float:
    """A duration as Go writes it, as far as anybody sets one here: ``10s``, ``1m``, ``500ms``."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m)", text)
    if found is None:
        name = "TOPOLOGY_MAX_EXPORT_INTERVAL"
        raise ConfigError(f"environment {name}: expected a duration such as 10s, got {text!r}")
    return float(found[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0}[found[2]]
