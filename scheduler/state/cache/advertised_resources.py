"""The resources that some node advertises, or creates on request (dynamic MIG).

Usage does not matter here. A tier that no node has is not tried. A request above the largest node
gets another reason than a request that waits for other pods to end.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from scheduler.model import well_known
from scheduler.model.mig.gpu_models import GPU_MODELS
from scheduler.model.mig.profile import GpuModel, profile_of
from scheduler.model.node import Node

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
            if node.has_gpus and node.labels.get(well_known.MIG_CAPABLE) != _NOT_MIG_CAPABLE:
                self._count(self._model_names, node.geometry.gpu_model, step)

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
        amounts = self._amounts.setdefault(resource, Counter())
        self._count(amounts, amount, step)
        if not amounts:
            del self._amounts[resource]

    def _count(self, counts: Counter[Any], key: Any, step: int) -> None:
        counts[key] += step
        if not counts[key]:
            del counts[key]
