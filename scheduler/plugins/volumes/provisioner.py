"""Where the provisioner of a claim's class can create a volume for it.

Mirrors ``checkVolumeProvisions`` and ``hasEnoughCapacity`` of kube-scheduler's volumebinding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from scheduler.model.quantity import format_value
from scheduler.model.reasons.reason import Reason
from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.storage import StorageCapacity, StorageClass
from scheduler.plugins.volumes.codes import STORAGE_FULL, VOLUME_NOT_AVAILABLE
from scheduler.state.volumes.store import VolumeStore

NOT_AVAILABLE_TEXT = "node(s) didn't find available persistent volumes to bind"


class Provisioned(msgspec.Struct, frozen=True):
    """A claim whose volume is created on request; ``capacity`` is None where none is published."""

    claim: Claim
    found: StorageClass
    capacity: StorageCapacity | None = None


class LargeCapacities:
    """The capacities of a class that are large enough for a request, by a label of their nodes."""

    def __init__(self, capacities: Iterable[StorageCapacity], request: int) -> None:
        self._by_label: dict[str, dict[str, list[StorageCapacity]]] = {}
        self._others: list[StorageCapacity] = []
        keys: set[str] = set()
        for one in capacities:
            if one.largest is None or one.largest < request:
                continue
            keys |= one.nodes.keys
            if (pair := one.nodes.required_pair) is None:
                self._others.append(one)
            else:
                self._by_label.setdefault(pair[0], {}).setdefault(pair[1], []).append(one)
        self.label_keys = frozenset(keys)

    def on_node(self, labels: Mapping[str, str]) -> StorageCapacity | None:
        """The capacity of a node; of several the one with the most storage left, where
        kube-scheduler takes any.
        """
        found = (one for one in self._near(labels) if one.nodes.matches(labels))
        return max(found, key=lambda one: one.left, default=None)

    def _near(self, labels: Mapping[str, str]) -> Iterator[StorageCapacity]:
        yield from self._others
        for key, by_value in self._by_label.items():
            yield from by_value.get(labels.get(key, ""), ())


class Provisioner:
    """The class of one claim. ``capacities`` is None where the driver publishes none."""

    def __init__(self, store: VolumeStore, claim: Claim) -> None:
        self._claim = claim
        found = store.classes.get(claim.class_name)
        self._class = found if found is not None and found.provisions else None
        self._name = found.provisioner if found is not None else ""
        self.capacities: LargeCapacities | None = None
        driver = store.drivers.get(self._class.provisioner) if self._class is not None else None
        if driver is not None and driver.has_capacity and claim.request is not None:
            self.capacities = LargeCapacities(store.capacities(claim.class_name), claim.request)

    @property
    def label_keys(self) -> frozenset[str]:
        """The node labels that the answer depends on."""
        keys = self._class.node_labels if self._class is not None else frozenset()
        return keys if self.capacities is None else keys | self.capacities.label_keys

    def on_node(self, labels: Mapping[str, str]) -> Provisioned | Reason:
        """The claim's volume on a node with these labels, or why none is created there."""
        claim, found = self._claim, self._class
        if found is None or not found.admits(labels):
            return self._not_available(self._said)
        if self.capacities is None:
            return Provisioned(claim, found)
        capacity = self.capacities.on_node(labels)
        return self._too_large() if capacity is None else Provisioned(claim, found, capacity)

    def selected_elsewhere(self) -> Reason:
        """Another node is selected for the claim."""
        return self._not_available(f"{self._said}; selected node {self._claim.selected_node}")

    def _not_available(self, said: str) -> Reason:
        text = f"{NOT_AVAILABLE_TEXT} ({said})"
        return Reason(code=VOLUME_NOT_AVAILABLE, text=text, resolvable=False)

    def _too_large(self) -> Reason:
        need = format_value("storage", self._claim.request or 0)
        text = f"node(s) did not have enough free storage ({self._said}; needs {need})"
        return Reason(code=STORAGE_FULL, text=text, resolvable=False)

    @property
    def _said(self) -> str:
        """Claim, class and, if the class exists, its provisioner."""
        claim = self._claim
        by = f"; provisioner {self._name}" if self._name else ""
        return f"claim {claim.name}; class {claim.class_name}{by}"
