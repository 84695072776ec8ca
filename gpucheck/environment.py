"""The configuration of the container, read once from its environment.

Nothing here reads ``os.environ``, so every case can be tested as a plain dictionary. A missing GPU
variable is not an error: this service exists to show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

INTERVAL_S_DEFAULT: Final = 10
INTERVAL_S_MAX: Final = 86_400
NODE_UNKNOWN: Final = "unknown-node"


class Invalid(Exception):
    """An invalid value of a variable that the user set."""


class Environment(NamedTuple):
    node: str
    devices: str
    interval_s: int
    issues: tuple[str, ...]

    def line(self) -> str:
        return f"Node: {self.node}, CUDA_VISIBLE_DEVICES: {self.devices}"


def read_environment(variables: Mapping[str, str], hostname: str) -> Environment:
    return Environment(
        node=_node(variables, hostname),
        devices=_devices(variables),
        interval_s=_interval_s(variables),
        issues=tuple(_issues(variables)),
    )


def _node(variables: Mapping[str, str], hostname: str) -> str:
    return variables.get("NODE_NAME") or variables.get("HOSTNAME") or hostname or NODE_UNKNOWN


def _devices(variables: Mapping[str, str]) -> str:
    # Unset and empty differ: unset leaves every GPU visible, empty hides them all.
    devices = variables.get("CUDA_VISIBLE_DEVICES")
    if devices is None:
        return "not-set"
    return devices or "empty"


def _interval_s(variables: Mapping[str, str]) -> int:
    text = variables.get("LOG_INTERVAL", str(INTERVAL_S_DEFAULT)).strip()
    is_short = len(text) <= len(str(INTERVAL_S_MAX))
    interval_s = int(text) if is_short and text.isascii() and text.isdigit() else 0
    if not 1 <= interval_s <= INTERVAL_S_MAX:
        raise Invalid(
            f"LOG_INTERVAL: expected whole seconds from 1 to {INTERVAL_S_MAX}, got {text[:40]!r};"
            f" leave it out for {INTERVAL_S_DEFAULT}"
        )
    return interval_s


def _issues(variables: Mapping[str, str]) -> list[str]:
    issues = []
    if not variables.get("NODE_NAME"):
        issues.append("NODE_NAME is not set (fieldRef spec.nodeName), the host name is shown")
    if not variables.get("POD_NAMESPACE"):
        issues.append("POD_NAMESPACE is not set (fieldRef metadata.namespace)")
    if "CUDA_VISIBLE_DEVICES" not in variables:
        issues.append("CUDA_VISIBLE_DEVICES is not set, no GPU was assigned to this container")
    elif not variables["CUDA_VISIBLE_DEVICES"]:
        issues.append("CUDA_VISIBLE_DEVICES is empty, every GPU is hidden from this container")
    return issues
