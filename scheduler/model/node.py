"""A node as the scheduler reads it: names, labels, taints and resources."""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec

from scheduler.model import well_known
from scheduler.model.cached import cached
from scheduler.model.gpu import allocated_devices, physical_gpus
from scheduler.model.limits import MAP_DEVICE_MAX, NODE_GPUS_MAX
from scheduler.model.mig.gpu_models import gpu_model_of
from scheduler.model.mig.node_geometry import (
    NodeMigGeometry,
    awaited,
    geometry,
    gpu_count,
    hold,
    memory_mib,
    replicas,
    single_profile,
)
from scheduler.model.mig.profile import GpuModel, profile_of
from scheduler.model.selector import Taint


class DynamicMig(msgspec.Struct, frozen=True, gc=False):
    """Dynamic MIG GPUs of one model: their indexes are 0 to ``count`` - 1."""

    gpu_model: GpuModel
    count: int


class Node(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A node of the cluster; ``allocatable`` in base units (milli cpu, whole units).

    ``capacity`` has only GPU resources. ``images`` are the names of the container images on the
    node with their sizes in bytes. ``annotations`` has only those about MIG, failed GPUs and
    GPU ids. ``created`` is the API's timestamp text, ``boot`` differs after each start of the
    machine. ``unread`` describes undecodable fields, if any: then no pod is placed there.
    """

    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    allocatable: dict[str, int] = {}
    capacity: dict[str, int] = {}
    annotations: dict[str, str] = {}
    declared_features: frozenset[str] = frozenset()
    images: tuple[tuple[str, int], ...] = ()
    created: str = ""
    boot: str = ""
    unread: str = ""

    @cached
    def devices(self) -> tuple[str, ...]:
        """The GPU and MIG resources that the node offers.

        A resource other than whole GPUs with a count of 0 is a leftover of another MIG geometry or
        device plugin configuration, and does not count. On a dynamic MIG node these are all
        possible profiles.
        """
        found = tuple(
            resource
            for resource, amount in self.allocatable.items()
            if resource == well_known.GPU or (amount > 0 and well_known.is_gpu_device(resource))
        )
        if self.dynamic_mig is None:
            return found
        plain = (profile.resource for profile in self.dynamic_mig.gpu_model.plain)
        return tuple(dict.fromkeys((*plain, *found)))

    @cached
    def dynamic_mig(self) -> DynamicMig | None:
        """The GPUs on which an operator creates MIG instances on request (design 6), or None.

        Only if labels have the GPU model and the count, and no GPU is advertised as a whole: its
        index would be unknown.
        """
        labels = self.labels
        if labels.get(well_known.MIG_DYNAMIC) != "true" or self.allocatable.get(well_known.GPU, 0):
            return None
        advertised = (well_known.mig_profile(r) for r in self.allocatable if well_known.is_mig(r))
        gpu_model = gpu_model_of(
            labels.get(well_known.GPU_PRODUCT, ""), memory_mib(labels), advertised
        )
        count = gpu_count(labels)
        return DynamicMig(gpu_model, count) if gpu_model is not None and count is not None else None

    def most(self, resource: str) -> int:
        """The amount of a resource on the empty node."""
        if self.dynamic_mig is not None and well_known.is_mig(resource):
            profile = profile_of(self.dynamic_mig.gpu_model, resource)
            return profile.max_count * self.dynamic_mig.count if profile else 0
        return self.allocatable.get(resource, 0)

    @cached
    def offered(self) -> physical_gpus.OfferedGpus:
        """The GPUs that the node advertises with healthy devices."""
        return physical_gpus.offered(self.allocatable, self.capacity)

    @cached
    def when_empty(self) -> dict[str, int]:
        """The amount of every resource but MIG instances on the empty node with healthy devices.

        GPUs that failed, or have MIG instances now, count: they are in the node's label.
        """
        found = {
            resource: amount
            for resource, amount in self.allocatable.items()
            if amount > 0 and not well_known.is_mig(resource)
        }
        units = (gpu_count(self.labels) or 0) * replicas(self.labels, well_known.GPU)
        if units:
            found[well_known.GPU] = max(units, found.get(well_known.GPU, 0))
        return found

    @property
    def has_gpus(self) -> bool:
        """Whether any resource, label or annotation of the node shows GPUs."""
        return self.advertises_gpus or well_known.GPU_PRODUCT in self.labels

    @cached
    def advertises_gpus(self) -> bool:
        """Whether the node names any GPU resource, whole or MIG, even with a count of 0.

        A restarting device plugin advertises 0 for a while, and still allocates devices.
        """
        return self.offered.is_any or bool(self.devices)

    @cached
    def has_plugin(self) -> bool:
        """Whether the node shows a device plugin or a DRA driver."""
        return self.advertises_gpus or physical_gpus.is_discovered(self.labels)

    @property
    def honours_indexes(self) -> bool:
        """Whether the label says that the device plugin allocates the GPUs that the scheduler
        chooses.
        """
        return self.labels.get(well_known.NUMBERED) == "numbered"

    @cached
    def is_index_assigned(self) -> bool:
        """Whether the node is index-assigned (design 5.5).

        True without a device plugin, or with one that honours the scheduler's choice, according to
        a label. On all other nodes the kubelet assigns GPUs, and the scheduler only counts them.
        """
        return self.honours_indexes or not self.has_plugin

    @cached
    def physical_gpu_count(self) -> int | None:
        """The number of physical GPUs, independently of allocatable; None if unknown."""
        return physical_gpus.physical(self.labels, self.offered, len(self.failed_gpus))

    @cached
    def mig_gpus(self) -> Container[int] | None:
        """Indexes of the GPUs with MIG instances, as far as known; None for all.

        Empty on dynamic MIG nodes. Where the plugin numbers its units, the indexes beyond those.
        """
        if self.dynamic_mig is not None:
            return frozenset()
        all_have_mig = physical_gpus.all_have_mig(self.labels, self.offered)
        if self.honours_indexes:
            count = (self.offered.whole or 0) + len(self.failed_gpus)
            has_mig = all_have_mig or self.offered.slices
            return range(count, MAP_DEVICE_MAX + 1) if has_mig else frozenset()
        if self.geometry.gpus:
            return frozenset(gpu.index for gpu in self.geometry.gpus if gpu.has_mig)
        return None if all_have_mig else frozenset()

    @cached
    def geometry(self) -> NodeMigGeometry:
        """The MIG geometry of the node."""
        return geometry(self.labels, self.annotations, self.allocatable)

    @cached
    def mig_hold(self) -> str:
        """The state of the MIG configuration if it keeps pods away; else empty."""
        return hold(self.labels)

    @cached
    def mig_awaited(self) -> str:
        """The wanted MIG configuration while it is unknown whether a mig-manager runs."""
        return awaited(self.labels)

    @cached
    def single_profile(self) -> str:
        """The profile whose instances ``nvidia.com/gpu`` counts here; empty if it counts GPUs."""
        return single_profile(self.labels)

    def unit(self, resource: str) -> str:
        """The unit of a GPU resource here: ``gpu``, ``gpu.shared`` or a MIG profile."""
        is_slice = resource == well_known.GPU and self.single_profile
        return self.single_profile if is_slice else well_known.mig_profile(resource)

    @cached
    def failed_gpus(self) -> frozenset[int]:
        """Indexes of GPUs that exist and must not be used."""
        return physical_gpus.failed_gpus(self.annotations)

    @cached
    def gpu_ids(self) -> Mapping[str, int]:
        """The index of each GPU by its id; empty without the annotation."""
        text = self.annotations.get(well_known.GPU_IDS)
        return allocated_devices.table(text) if text else {}

    @cached
    def gpu_problem(self) -> str:
        """The contradiction because of which none of the node's GPUs is assigned; else empty."""
        if flaw := physical_gpus.flaw(self.annotations):
            return f"annotation {well_known.UNUSABLE_DEVICES}: {flaw}"
        offered = self.gpu_count or 0
        if self.is_index_assigned and offered > NODE_GPUS_MAX:
            return (
                f"allocatable {well_known.GPU} is {offered} on a node whose GPUs have indexes;"
                f" at most {NODE_GPUS_MAX} are believed"
            )
        return ""

    @cached
    def indexes(self) -> tuple[int, ...]:
        """The indexes of the usable GPUs on an index-assigned node."""
        if not 0 < (self.gpu_count or 0) <= NODE_GPUS_MAX or self.gpu_problem:
            return ()
        count = physical_gpus.index_count(self.labels, self.annotations, self.gpu_count or 0)
        return tuple(index for index in range(count) if index not in self.failed_gpus)

    @property
    def gpu_count(self) -> int | None:
        """Advertised units of ``nvidia.com/gpu``, or None; ``physical_gpu_count`` counts GPUs."""
        return self.allocatable.get(well_known.GPU)


class Namespace(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A namespace's labels and annotations: permission for maps, and the ladder.

    An undecodable namespace (see ``unread``) has none, and so allows nothing.
    """

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    unread: str = ""

    def may_map(self, allow: str) -> bool:
        """Whether its pods may use maps; ``allow`` is ``labelled``, ``all`` or ``none``."""
        is_labelled = self.labels.get(well_known.MAPS_ALLOWED) == "allowed"
        return allow == "all" or (allow == "labelled" and is_labelled)
