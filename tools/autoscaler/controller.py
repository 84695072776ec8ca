"""Carries plans out with kubectl: one list, then nodes are created and deleted."""

from __future__ import annotations

import copy
import json
import secrets
from typing import Protocol

from tools.autoscaler.contract import Json, Reading
from tools.autoscaler.plan import GROUP_LABEL, NodeGroup, Plan, plan


class Kubectl(Protocol):
    """Runs kubectl and returns what it prints."""

    def __call__(self, *words: str, input: str | None = None) -> str:
        """Run it with these words, and this text as its input."""


class Autoscaler:
    """One node group of one cluster."""

    def __init__(self, kubectl: Kubectl, group: NodeGroup, reading: Reading) -> None:
        self._kubectl = kubectl
        self._group = group
        self._reading = reading
        self._empty: frozenset[str] = frozenset()

    def step(self) -> Plan:
        """Look at the cluster once, and change it."""
        items = json.loads(self._kubectl("get", "pods,nodes", "-A", "-o", "json"))["items"]
        pods = [one for one in items if one["kind"] == "Pod"]
        nodes = [one for one in items if one["kind"] == "Node"]
        found = plan(pods, nodes, self._group, self._reading, self._empty)
        self._empty = found.empty
        for _ in range(found.add):
            self._kubectl("create", "-f", "-", input=json.dumps(self._new_node()))
        for name in found.remove:
            self._kubectl("delete", "node", name, "--wait=false")
        return found

    def _new_node(self) -> Json:
        node = copy.deepcopy(self._group.template)
        name = f"{self._group.name}-{secrets.token_hex(3)}"
        node["metadata"]["name"] = name
        labels = node["metadata"].setdefault("labels", {})
        labels.update({GROUP_LABEL: self._group.name, "kubernetes.io/hostname": name})
        return node
