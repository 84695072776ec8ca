"""Storage classes, CSI drivers and what they say of nodes, as far as decisions read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.model.pods.pod_affinity import PodSelector
from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.persistent_volume import PersistentVolume

WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"

#: The requirements of one term: a node label and the values that it may have.
TopologyTerm = tuple[tuple[str, tuple[str, ...]], ...]


class StorageClass(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One StorageClass; ``topologies`` are the terms of which a node must meet one."""

    name: str
    provisioner: str = ""
    is_delayed: bool = False
    topologies: tuple[TopologyTerm, ...] = ()

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def provisions(self) -> bool:
        """Whether volumes of the class are provisioned on request."""
        return self.provisioner not in ("", NO_PROVISIONER)

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Whether ``allowedTopologies`` has the node; an empty term has none."""
        return not self.topologies or any(
            bool(term) and all(labels.get(key) in values for key, values in term)
            for term in self.topologies
        )

    @property
    def node_labels(self) -> frozenset[str]:
        """The node labels that ``allowedTopologies`` reads."""
        return frozenset(key for term in self.topologies for key, _ in term)


class CsiNode(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The CSI drivers of one node, with the number of volumes that each can attach there.

    None means that a driver states no number; ``migrated`` are in-tree plugins that CSI drivers
    have replaced on the node.
    """

    name: str
    limits: dict[str, int | None] = {}
    migrated: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """The name of the node."""
        return self.name


class CsiDriver(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One CSIDriver: whether its capacity is published, and whether a node must have it."""

    name: str
    has_capacity: bool = False
    is_required: bool = False

    @property
    def key(self) -> str:
        """The name."""
        return self.name


class StorageCapacity(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One CSIStorageCapacity: the largest volume of a class on the nodes that match ``nodes``.

    ``left`` is all that is left; both are in bytes.
    """

    namespace: str
    name: str
    class_name: str = ""
    largest: int | None = None
    left: int = 0
    nodes: PodSelector = PodSelector()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class VolumeAttachment(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A volume that is attached to a node, or about to be."""

    name: str
    driver: str = ""
    node_name: str = ""
    volume_name: str = ""

    @property
    def key(self) -> str:
        """The name."""
        return self.name


StorageObject = (
    Claim
    | PersistentVolume
    | StorageClass
    | CsiNode
    | CsiDriver
    | StorageCapacity
    | VolumeAttachment
)
