"""The slices of nodes without a kubelet, with the seed operator's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fakegpu import names
from fakegpu.dra.domains import channel_contents
from fakegpu.dra.pool import Pool
from fakegpu.dra.publisher import Publisher


def gpu_pool(node: str, node_uid: str = "") -> Pool:
    """The pool of a node's GPUs."""
    return Pool(driver=names.DRA_DRIVER, node=node, node_uid=node_uid, base=f"kwok-{node}-gpu")


def channel_pool(node: str, node_uid: str = "") -> Pool:
    """The pool of a node's channels of compute domains."""
    base = f"kwok-{node}-compute-domain-channel"
    return Pool(driver=names.DOMAIN_DRIVER, node=node, node_uid=node_uid, base=base)


class KwokSlices:
    """All published slices; channels only with compute domains."""

    def __init__(self, publisher: Publisher, *, has_domains: bool) -> None:
        self._publisher = publisher
        self._channels = channel_contents() if has_domains else ()

    async def show(self, node: str, uid: str, gpus: Sequence[dict[str, Any]] | None) -> None:
        """Publish a node's GPUs; None: DRA does not offer them."""
        await self._publisher.publish(gpu_pool(node, uid), gpus or ())
        await self._publisher.publish(channel_pool(node, uid), self._channels)

    async def hide(self, node: str) -> None:
        """Withdraw a node's slices."""
        for pool in (gpu_pool(node), channel_pool(node)):
            await self._publisher.publish(pool, ())
