"""A node as the scheduler sees it: names, labels, taints and what it offers."""

from __future__ import annotations

from functools import cached_property

import msgspec

from scheduler.model import names
from scheduler.model.selector import Taint


class Node(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A node of the cluster; ``allocatable`` in base units (milli cpu, whole units)."""

    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    allocatable: dict[str, int] = {}

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """The GPU and MIG resources that the node offers, even with a count of 0."""
        return tuple(resource for resource in self.allocatable if names.is_gpu_device(resource))

    @property
    def advertises_gpus(self) -> bool:
        """Whether the node offers any GPU resource, whole or MIG."""
        return bool(self.devices)

    @cached_property
    def is_numbered(self) -> bool:
        """Whether we know each GPU of the node by its index (design 5.5).

        True where nothing is advertised (nobody else hands out devices), or where the
        device plugin honours our choice and says so by a label. Everywhere else the
        kubelet picks and we can only count.
        """
        return self.labels.get(names.NUMBERED) == "numbered" or not self.advertises_gpus

    @property
    def gpu_count(self) -> int | None:
        """Number of whole GPUs, or None where the node does not say (any index is accepted)."""
        return self.allocatable.get(names.GPU)


class Namespace(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A namespace's labels and annotations: who may use maps, which ladder holds."""

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
