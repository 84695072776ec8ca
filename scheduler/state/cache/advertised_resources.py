"""The resources that some node advertises, or creates on request (dynamic MIG).

Usage does not matter here. A tier that no node has is not tried. A request above the largest node
gets another reason than a request that waits for other pods to end.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from scheduler.model import well_known
from scheduler.model.mig.gpu_models import GPU_MODELS
from scheduler.model.mig.node_geometry import memory_mib
from scheduler.model.mig.profile import GpuModel, profile_of
from scheduler.model.node import Node
from scheduler.state.dra.device_counts import DeviceCounts

#: The value of feature discovery's label for a GPU without MIG.
_NOT_MIG_CAPABLE = "false"


class AdvertisedResources:
    """Resources and boards, by how many nodes have them."""

    def __init__(self) -> None:
        self._resources: Counter[str] = Counter()
        self._dynamic_mig_models: Counter[GpuModel] = Counter()
        #: Resource -> amount on an empty node -> number of nodes with that amount.
        self._amounts: dict[str, Counter[int]] = {}
        self._most: dict[str, int] = {}
        #: GPU models by board name; the name is empty for an unknown model.
        self._model_names: Counter[str] = Counter()
        #: MiB of one GPU -> number of nodes; 0 where it is unknown.
        self._gpu_memory: Counter[int] = Counter()

    def change(self, before: Node | None, after: Node | None) -> None:
        """A node was added, changed or deleted."""
        for node, step in ((before, -1), (after, 1)):
            if node is None:
                continue
            for resource in node.devices:
                self._count(self._resources, resource, step)
            if node.dynamic_mig is not None:
                self._count(self._dynamic_mig_models, node.dynamic_mig.gpu_model, step)
            for resource, amount in node.when_empty.items():
                self._weigh(resource, amount, step)
            if node.has_gpus:
                self._count(self._gpu_memory, memory_mib(node.labels), step)
            if node.has_gpus and node.labels.get(well_known.MIG_CAPABLE) != _NOT_MIG_CAPABLE:
                self._count(self._model_names, node.geometry.gpu_model, step)

    def change_devices(self, before: DeviceCounts | None, after: DeviceCounts | None) -> None:
        """The devices of a node's pools changed: extended resources that DRA serves."""
        totals = (one.total if one is not None else {} for one in (before, after))
        for total, step in zip(totals, (-1, 1), strict=True):
            for resource, amount in total.items():
                if amount:
                    self._count(self._resources, resource, step)
                    self._weigh(resource, amount, step)

    def has(self, resource: str) -> bool:
        """Whether a node has the resource, under this name or another name of the same profile."""
        if resource in self._resources:
            return True
        is_mig = well_known.is_mig(resource)
        return is_mig and any(
            profile_of(gpu_model, resource) for gpu_model in self._dynamic_mig_models
        )

    def resources(self) -> list[str]:
        """All of them, by name."""
        return sorted(self._resources)

    def most(self, resource: str) -> int:
        """The largest amount of a resource on one empty node with healthy devices."""
        amounts = self._amounts.get(resource)
        if not amounts:
            return 0
        most = self._most.get(resource)
        if most is None:
            most = self._most[resource] = max(amounts)
        return most

    @property
    def largest_gpu_mib(self) -> int:
        """The memory of the largest GPU; 0 without GPUs, or if that of some node is unknown."""
        return 0 if 0 in self._gpu_memory else max(self._gpu_memory, default=0)

    def lacks_profile(self, resource: str) -> bool:
        """Whether no GPU model of the cluster has a MIG profile.

        An unknown model may have any profile. Without GPUs in the cluster any known model may be
        added.
        """
        if not well_known.is_mig(resource) or self.has(resource) or "" in self._model_names:
            return False
        return not any(
            profile_of(GPU_MODELS[name], resource) for name in self._model_names or GPU_MODELS
        )

    def models(self) -> list[str]:
        """The known GPU models with MIG, by name."""
        return sorted(name for name in self._model_names if name)

    def _weigh(self, resource: str, amount: int, step: int) -> None:
        self._most.pop(resource, None)
        amounts = self._amounts.get(resource)
        if amounts is None:
            amounts = self._amounts[resource] = Counter()
        self._count(amounts, amount, step)
        if not amounts:
            del self._amounts[resource]

    def _count(self, counts: Counter[Any], key: Any, step: int) -> None:
        counts[key] += step
        if not counts[key]:
            del counts[key]
