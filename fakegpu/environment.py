"""The operator's settings: its file, overridden by the seed operator's environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from fakegpu.config import Config, ConfigError, Dra, Node, parse
from scheduler.model.integer_text import whole

POD_RESOURCES: Final = "/var/lib/fake-gpu-operator"
PORT_MAX: Final = 65535
P = TypeVar("P", bound=msgspec.Struct)


def load(path: Path | None, environment: Mapping[str, str]) -> Config:
    """The file, if it exists, with the environment; or ConfigError."""
    if path is None:
        return with_environment(Config(), environment)
    try:
        return with_environment(parse(path.read_bytes()), environment)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def with_environment(config: Config, environment: Mapping[str, str]) -> Config:
    """The settings with the variables of the seed operator."""
    topology = _changed(config.topology, environment, namespace="FAKE_GPU_OPERATOR_NAMESPACE")
    topology = _changed(
        topology, environment, name="TOPOLOGY_CM_NAME", namespace="TOPOLOGY_CM_NAMESPACE"
    )
    config = _changed(config, environment, reservation_namespace="RESOURCE_RESERVATION_NAMESPACE")
    labels, election, zones = (
        config.node_labels,
        config.leader_election,
        config.node_resource_topology,
    )
    if _is_true(environment, "DISABLE_NODE_LABELING"):
        labels = msgspec.structs.replace(labels, enabled=False)
    if _is_true(environment, "NODE_RESOURCE_TOPOLOGY_ENABLED"):
        zones = msgspec.structs.replace(zones, enabled=True)
    if environment.get("LEADER_ELECT"):
        leads = _is_true(environment, "LEADER_ELECT")
        election = msgspec.structs.replace(election, leader_elect=leads)
    return msgspec.structs.replace(
        config,
        topology=topology,
        node_labels=labels,
        leader_election=election,
        node_resource_topology=zones,
        node=_node_with(config.node, environment),
        dra=_dra_with(config.dra, environment),
    )


def _node_with(node: Node, environment: Mapping[str, str]) -> Node:
    node = _changed(node, environment, prometheus_url="PROMETHEUS_URL")
    if interval := environment.get("TOPOLOGY_MAX_EXPORT_INTERVAL"):
        node = msgspec.structs.replace(node, export_interval_s=_seconds(interval))
    if _is_true(environment, "POD_RESOURCES_ENABLED") and not node.pod_resources_folder:
        node = msgspec.structs.replace(node, pod_resources_folder=POD_RESOURCES)
    return node


def _dra_with(dra: Dra, environment: Mapping[str, str]) -> Dra:
    dra = _changed(
        dra,
        environment,
        cdi_folder="CDI_ROOT",
        registrar_folder="KUBELET_REGISTRAR_DIRECTORY_PATH",
        plugins_folder="KUBELET_PLUGINS_DIRECTORY_PATH",
    )
    if port := environment.get("HEALTHCHECK_PORT"):
        number = whole(port, PORT_MAX)
        if number is None:
            raise ConfigError(f"environment HEALTHCHECK_PORT: expected a port, got {port[:40]!r}")
        dra = msgspec.structs.replace(dra, health_port=number)
    return dra


def _changed(part: P, environment: Mapping[str, str], **variables: str) -> P:
    found = {key: environment[name] for key, name in variables.items() if environment.get(name)}
    return msgspec.structs.replace(part, **found)


def _is_true(environment: Mapping[str, str], name: str) -> bool:
    text = environment.get(name, "").lower()
    if text not in ("", "true", "false", "1", "0"):
        raise ConfigError(f"environment {name}: expected true or false, got {text!r}")
    return text in ("true", "1")


def _seconds(text: str) -> float:
    """A duration in Go's format, in the supported forms: ``10s``, ``1m``, ``500ms``."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m)", text)
    if found is None:
        name = "TOPOLOGY_MAX_EXPORT_INTERVAL"
        raise ConfigError(f"environment {name}: expected a duration such as 10s, got {text[:40]!r}")
    return float(found[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0}[found[2]]
