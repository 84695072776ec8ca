"""The shares of one node's GPUs: of its pods and claims, and what is idle.

This is about GPUs only; other devices of DRA drivers have no share.
"""

from __future__ import annotations

from fractions import Fraction

import msgspec

from scheduler.model import well_known
from scheduler.model.cost.share import ZERO, total
from scheduler.model.dra.device import DeviceId
from scheduler.model.mig.gpu_models import board_name
from scheduler.model.node import Node
from scheduler.model.pods.original_request import original_gpu_requests
from scheduler.model.pods.pod import Pod
from scheduler.state.capacity.claim_shares import claim_shares
from scheduler.state.capacity.gpu_pools import CutGpu, HeldShare, Idle, Pools
from scheduler.state.capacity.plugin_shares import plugin_shares, unit_share
from scheduler.state.capacity.summary import UNKNOWN_MODEL
from scheduler.state.dra.store import DraStore
from scheduler.state.node_info import NodeInfo


class NodeShares(msgspec.Struct, frozen=True):
    """The GPUs of one node; the shares of ``held``, ``idle`` and ``cut`` add up to ``gpus``."""

    node: Node
    model: str
    gpus: int
    held: tuple[HeldShare, ...]
    idle: Idle
    cut: tuple[CutGpu, ...]


def shares_of(node_info: NodeInfo, store: DraStore, seen: set[DeviceId]) -> NodeShares:
    """The shares of a node that exists; ``seen`` are the devices of nodes before it, because
    several nodes may reach one device.
    """
    node = node_info.node
    assert node is not None, "a node that only its pods name has no GPUs"
    pools = Pools()
    plugin_shares(node_info, pools)
    product = claim_shares(node_info, store, pools, seen) if node_info.dra is not None else ""
    return NodeShares(
        node=node,
        model=board_name(node.labels.get(well_known.GPU_PRODUCT) or product) or UNKNOWN_MODEL,
        gpus=pools.gpus,
        held=_held(node, pools),
        idle=pools.idle,
        cut=tuple(pools.cut),
    )


def _held(node: Node, pools: Pools) -> tuple[HeldShare, ...]:
    """The shares of all pods, with what a smaller tier saves."""
    return tuple(
        HeldShare(
            one.namespace,
            one.pod,
            one.share,
            one.is_degraded,
            _saved(node, one.pod, one.share) if one.is_degraded else ZERO,
        )
        for one in pools.held.values()
    )


def _saved(node: Node, pod: Pod | None, share: Fraction) -> Fraction:
    """What the request of its author would hold more; nothing for a claim."""
    asked = original_gpu_requests(pod) if pod is not None else None
    if asked is None:
        return ZERO
    before = total(unit_share(node, resource) * count for resource, count in asked.items())
    return max(ZERO, before - share)
