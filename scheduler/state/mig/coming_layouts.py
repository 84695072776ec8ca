"""Nodes that mig-manager lays out, or is about to, as they will be.

::

    mig.config is set --no state yet, pending, rebooting--> success --the plugin--> the instances
                      '--failed: the node will be nothing that is known       are advertised

The layout is known for the built-in configurations, on GPUs whose model and number labels say. On
every other node nothing is expected.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.gpu.plugin_resources import without_gpus
from scheduler.model.mig import named_config
from scheduler.model.mig.layout import GPU_MODELS
from scheduler.model.mig.node_geometry import FAILED, gpu_count
from scheduler.model.node import Node
from scheduler.state.node_info import NodeInfo

#: Taints of a node that starts its machine again.
_STARTING: Final = frozenset(
    f"node.kubernetes.io/{what}" for what in ("not-ready", "unreachable", "network-unavailable")
)


class ComingLayouts:
    """By name the nodes that get another MIG layout, as they will be then."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}

    def see(self, node_info: NodeInfo) -> None:
        """A node's newest state."""
        node = node_info.node
        assert node is not None
        coming = laid_out(node_info) if well_known.MIG_WANTED in node.labels else None
        if coming is None:
            self.lose(node.name)
        else:
            self.nodes[node.name] = coming

    def lose(self, name: str) -> None:
        """The node was deleted, or nothing is expected of it."""
        self.nodes.pop(name, None)


def laid_out(node_info: NodeInfo) -> Node | None:
    """The node as it will be after mig-manager; None if it is so already, or is not known."""
    node = node_info.node
    if node is None or node_info.dra is not None or not _may_change(node_info, node):
        return None
    offers = _offers(node)
    if offers is None or _is_done(node, offers):
        return None
    single = _single(node, offers)
    if single is None:
        return None
    kept = without_gpus(node.allocatable)
    labels = {**node.labels, well_known.MIG_STATE: "success"}
    if single:
        labels[well_known.GPU_PRODUCT] += f"-MIG-{single}"
        offers = {well_known.GPU: sum(offers.values())}
    return msgspec.structs.replace(
        node,
        labels=labels,
        taints=tuple(one for one in node.taints if one.key not in _STARTING),
        annotations={k: v for k, v in node.annotations.items() if k != well_known.MIG_CONFIG},
        allocatable={**kept, **offers},
        capacity={**without_gpus(node.capacity), **offers},
    )


def _may_change(node_info: NodeInfo, node: Node) -> bool:
    """Whether mig-manager is at work, or the device plugin has not seen its work yet."""
    if node.dynamic_mig is not None or node.single_profile:
        return False
    if node.mig_hold:
        return node.mig_hold != FAILED
    if node.mig_awaited:
        return not node_info.is_settled
    return node.labels.get(well_known.MIG_STATE) == "success"


def _offers(node: Node) -> dict[str, int] | None:
    """What the device plugin will advertise; None if the configuration or the GPUs are unknown."""
    wanted = node.labels[well_known.MIG_WANTED]
    gpus = gpu_count(node.labels) or node.gpu_count
    gpu_model = GPU_MODELS.get(node.geometry.gpu_model)
    if not gpus or gpu_model is None:
        return None
    if wanted == named_config.DISABLED:
        return {well_known.GPU: gpus}
    profiles = named_config.instances(wanted, gpu_model)
    if not profiles:
        return None
    counts = Counter(gpu_model.profiles[name].resource for name in profiles)
    return {resource: count * gpus for resource, count in counts.items()}


def _is_done(node: Node, offers: dict[str, int]) -> bool:
    """Whether mig-manager ended and some of the devices are advertised; others may have failed."""
    is_busy = node.mig_hold or node.mig_awaited
    return not is_busy and any(map(node.allocatable.get, offers))


def _single(node: Node, offers: dict[str, int]) -> str | None:
    """The profile that ``nvidia.com/gpu`` will count; empty with the strategy ``mixed``, None if
    the plugin will not advertise the instances.
    """
    strategy = node.labels.get(well_known.MIG_STRATEGY, "mixed")
    if strategy == "mixed" or well_known.GPU in offers:
        return ""
    if strategy != "single" or len(offers) > 1 or well_known.GPU_PRODUCT not in node.labels:
        return None
    return well_known.mig_profile(next(iter(offers)))
