"""The session's node as one that was never there."""

from __future__ import annotations

from tests.e2e.agent import Agent
from tools.realnode import RealNode


def start_as_new(node: RealNode, agent: Agent, labels: dict[str, str]) -> None:
    """End kubelet, kube-proxy and agent, and start them on a new node with these labels.

    The agent's token ends with the node's object.
    """
    with agent.killed():
        renew(node, labels)


def renew(node: RealNode, labels: dict[str, str]) -> None:
    """End kubelet and kube-proxy, and start them on a new node with these labels.

    A kubelet keeps a resource that no plugin offers any more, as 0, for as long as it has its
    checkpoint and the node's object.
    """
    path = f"/api/v1/nodes/{node.name}"
    node.stop_kubelet()
    node.plane.client.delete(path)
    folder = node.places.directory / "kubelet" / "device-plugins"
    (folder / "kubelet_internal_checkpoint").unlink(missing_ok=True)
    node.start_kubelet()
    node.restart_services()
    node.plane.client.patch(path, {"metadata": {"labels": labels}})
