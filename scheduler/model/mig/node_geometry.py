"""The MIG instances on each GPU of a node, from the node's labels, annotations and allocatable.

The device plugin advertises the number of instances. The annotation ``run.ai/mig.config``, on nodes
that have it, contains their places and the whole GPUs::

    strategy mixed     nvidia.com/gpu counts whole GPUs, nvidia.com/mig-<profile> instances
    strategy single    nvidia.com/gpu counts instances of the one profile that the product label
                       ends in (NVIDIA-A100-SXM4-40GB-MIG-1g.5gb)

A GPU whose annotation is impossible has a line in ``flaws``: its instances are counted, not
positioned. Nothing here raises, because a node's annotation must not stop a scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from scheduler.model import limits, well_known
from scheduler.model.gpu import plugin_resources
from scheduler.model.integer_text import whole
from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig import layout_cost
from scheduler.model.mig.config import MigConfigEntry, MigConfigError, MigDeviceSpec, parse_config

#: mig-manager's state after a failure.
FAILED: Final = "failed"
#: Values of the label ``nvidia.com/mig.config.state`` with which no pod may use a GPU.
HOLDING: Final = frozenset(("pending", "rebooting", FAILED))
UNSET: Final = "unset"
_INFIX: Final = "-MIG-"
#: The labels that a geometry depends on, beside those of replicas.
_LABELS: Final = (
    well_known.GPU_PRODUCT,
    well_known.GKE_PARTITION,
    well_known.MIG_STRATEGY,
    well_known.GPU_MEMORY,
    well_known.GPU_COUNT,
    f"{well_known.GPU}.replicas",
)
#: A geometry is kept if its annotation and its resources are not larger.
SHAPE_TEXT_MAX: Final = 4096
SHAPE_RESOURCES_MAX: Final = 32


class Gpu(msgspec.Struct, frozen=True):
    """One GPU of the annotation.

    ``layout`` is None if the instances cannot be positioned; ``names`` are all of them.
    """

    index: int
    has_mig: bool
    names: tuple[str, ...] = ()
    layout: mig_layout.Layout | None = ()


class NodeMigGeometry(msgspec.Struct, frozen=True):
    """A node's GPUs; ``single`` is the profile that ``nvidia.com/gpu`` counts there, if any.

    ``instances`` are advertised by the node, ``gpus`` are in its annotation, ``total_gpus`` is the
    number of GPUs, None if unknown.
    """

    gpu_model: str = ""
    single: str = ""
    instances: tuple[tuple[str, int], ...] = ()
    gpus: tuple[Gpu, ...] = ()
    total_gpus: int | None = None
    flaws: tuple[str, ...] = ()

    @property
    def mig_gpu_count(self) -> int:
        """The number of GPUs that certainly have MIG: by the annotation, else by their
        instances.
        """
        if self.gpus:
            return sum(gpu.has_mig for gpu in self.gpus)
        gpu_model = mig_layout.GPU_MODELS.get(self.gpu_model)
        return 0 if gpu_model is None or self.single else least_gpus(gpu_model, self.instances)

    @property
    def whole_max(self) -> int | None:
        """The largest possible number of whole GPUs; None if unlimited."""
        return (
            None
            if self.total_gpus is None or self.single
            else max(0, self.total_gpus - self.mig_gpu_count)
        )


def geometry(
    labels: Mapping[str, str], annotations: Mapping[str, str], allocatable: Mapping[str, int]
) -> NodeMigGeometry:
    """The MIG geometry of a node; nodes of one shape share it."""
    text = annotations.get(well_known.MIG_CONFIG, "")
    counted = tuple((r, n) for r, n in allocatable.items() if well_known.is_gpu_device(r))
    read = (*_LABELS, *(f"{r.removesuffix(plugin_resources.SHARED)}.replicas" for r, _ in counted))
    known = tuple((key, labels[key]) for key in read if key in labels)
    if len(text) > SHAPE_TEXT_MAX or len(counted) > SHAPE_RESOURCES_MAX:
        return _geometry(known, text, counted)
    return _kept_geometry(known, text, counted)


def _geometry(
    known: tuple[tuple[str, str], ...], text: str, counted: tuple[tuple[str, int], ...]
) -> NodeMigGeometry:
    """The geometry by the labels and the resources that it depends on, and the annotation."""
    labels = dict(known)
    allocatable = plugin_resources.unshared(dict(counted))
    product = labels.get(well_known.GPU_PRODUCT, "")
    single = single_profile(labels)
    advertised = {
        mig_layout.canonical(resource): -(-count // replicas(labels, resource))
        for resource, count in allocatable.items()
        if well_known.is_mig(resource) and count > 0
    }
    if single:
        advertised = {
            single: allocatable.get(well_known.GPU, 0) // replicas(labels, well_known.GPU)
        }
    entries, flaw = _entries(text)
    profiles = [
        *advertised,
        *(mig_device.profile for entry in entries for mig_device in entry.mig_devices),
    ]
    gpu_model = mig_layout.gpu_model_of(product, memory_mib(labels), profiles)
    instances = tuple(sorted((name, count) for name, count in advertised.items() if count > 0))
    total_gpus = _total_gpus(labels, bool(single))
    gpus, flaws = _gpus(
        gpu_model, entries, total_gpus or _total_gpus_by_instances(entries, instances)
    )
    if not total_gpus and any(entry.devices is None for entry in entries):
        total_gpus = len(gpus) or None
    return NodeMigGeometry(
        gpu_model=gpu_model.name if gpu_model is not None else "",
        single=single,
        instances=instances,
        gpus=gpus,
        total_gpus=total_gpus,
        flaws=tuple(f"{well_known.MIG_CONFIG} {one}" for one in (*flaw, *flaws)),
    )


_kept_geometry = lru_cache(maxsize=1024)(_geometry)


def sound(
    labels: Mapping[str, str], annotations: Mapping[str, str], allocatable: dict[str, int]
) -> dict[str, int]:
    """Allocatable without whole GPUs that cannot exist, because they have MIG instances.

    A plugin that started before its node was partitioned advertises them for a while.
    """
    offered = allocatable.get(well_known.GPU, 0)
    if not offered or not (
        well_known.MIG_CONFIG in annotations or any(map(well_known.is_mig, allocatable))
    ):
        return allocatable
    most = geometry(labels, annotations, allocatable).whole_max
    if most is None or offered <= most * replicas(labels, well_known.GPU):
        return allocatable
    return {**allocatable, well_known.GPU: most * replicas(labels, well_known.GPU)}


def single_profile(labels: Mapping[str, str]) -> str:
    """The profile whose instances ``nvidia.com/gpu`` counts here; empty if it counts GPUs."""
    partition = labels.get(well_known.GKE_PARTITION, "")
    if partition and mig_layout.is_profile(partition):
        return mig_layout.canonical(partition)
    _, infix, profile = labels.get(well_known.GPU_PRODUCT, "").partition(_INFIX)
    if not infix or labels.get(well_known.MIG_STRATEGY, "single") != "single":
        return ""
    profile = profile.removesuffix("-SHARED")
    return mig_layout.canonical(profile) if mig_layout.is_profile(profile) else ""


def hold(labels: Mapping[str, str]) -> str:
    """The state of the MIG configuration if GPU pods must wait for it; else empty.

    A node on which mig-manager has not begun yet advertises GPUs that will be partitioned: a new
    node of a cluster autoscaler would give its first pod a whole one.
    """
    state = labels.get(well_known.MIG_STATE, "")
    if state in HOLDING:
        return state
    is_to_begin = labels.get(well_known.MIG_WANTED) and labels.get(well_known.MIG_MANAGER) == "true"
    return UNSET if is_to_begin and not state else ""


def awaited(labels: Mapping[str, str]) -> str:
    """The wanted MIG configuration while it is unknown whether a mig-manager runs; else empty.

    A cloud sets ``nvidia.com/mig.config`` when it creates the node. The GPU operator's label about
    mig-manager follows only after feature discovery's ``mig.capable``. Until then the device plugin
    advertises GPUs that will be partitioned (gpu-operator issue 2670).
    """
    if well_known.MIG_STATE in labels or well_known.MIG_MANAGER in labels:
        return ""
    return (
        ""
        if labels.get(well_known.MIG_CAPABLE) == "false"
        else labels.get(well_known.MIG_WANTED, "")
    )


def replicas(labels: Mapping[str, str], resource: str) -> int:
    """The number of shares of one device of a time-sliced resource."""
    return max(1, whole(labels.get(resource + ".replicas", ""), limits.REPLICAS_MAX) or 0)


def gpu_count(labels: Mapping[str, str]) -> int | None:
    """The number of GPUs in the label; None if the label is invalid."""
    return whole(labels.get(well_known.GPU_COUNT, ""), limits.MIG_GPUS_MAX) or None


def memory_mib(labels: Mapping[str, str]) -> int:
    """The MiB of one GPU in the label; 0 if the label is invalid."""
    return whole(labels.get(well_known.GPU_MEMORY, ""), limits.GPU_MEMORY_MIB_MAX) or 0


def least_gpus(gpu_model: mig_layout.GpuModel, instances: tuple[tuple[str, int], ...]) -> int:
    """The smallest number of GPUs for these instances."""
    slices, fewest = 0, 0
    for name, count in instances:
        profile = mig_layout.profile_of(gpu_model, name)
        if profile is not None and mig_layout.compute_instances(name) is None:
            slices += profile.size * count
            fewest = max(fewest, -(-count // profile.max_count))
    return max(fewest, -(-slices // gpu_model.memory_slices))


def _entries(text: str) -> tuple[tuple[MigConfigEntry, ...], tuple[str, ...]]:
    if not text.strip():
        return (), ()
    try:
        return parse_config(text), ()
    except MigConfigError as problem:
        return (), (str(problem),)


def _total_gpus(labels: Mapping[str, str], is_single: bool) -> int | None:
    # With strategy single the label counts MIG instances.
    return None if is_single else gpu_count(labels)


def _total_gpus_by_instances(
    entries: tuple[MigConfigEntry, ...], instances: tuple[tuple[str, int], ...]
) -> int:
    """The number of GPUs behind "all", without a label: the minimum for the advertised
    instances.
    """
    fewest = 0
    for entry in entries:
        if entry.devices is None:
            per_gpu = Counter(mig_device.profile for mig_device in entry.mig_devices)
            for name, count in instances:
                if per_gpu[name]:
                    fewest = max(fewest, -(-count // per_gpu[name]))
        else:
            fewest = max(fewest, *(index + 1 for index in entry.devices))
    return min(fewest, limits.MIG_GPUS_MAX)


def _gpus(
    gpu_model: mig_layout.GpuModel | None, entries: tuple[MigConfigEntry, ...], total_gpus: int
) -> tuple[tuple[Gpu, ...], tuple[str, ...]]:
    found: dict[int, Gpu] = {}
    flaws: list[str] = []
    for entry in entries:
        if not is_for(entry, gpu_model):
            continue
        layout, flaw = layout_for(gpu_model, entry.mig_devices)
        if flaw:
            flaws.append(f"{entry.where}: {flaw}")
        profile_names = tuple(mig_device.profile for mig_device in entry.mig_devices)
        for index in range(total_gpus) if entry.devices is None else entry.devices:
            found[index] = Gpu(index, entry.is_enabled, profile_names, layout)
    return tuple(found[index] for index in sorted(found)), tuple(flaws)


def is_for(entry: MigConfigEntry, gpu_model: mig_layout.GpuModel | None) -> bool:
    """Whether an entry applies to a GPU model; an unknown id does not match."""
    return not entry.gpu_models or (
        gpu_model is not None
        and any(mig_layout.gpu_model_of(pci) is gpu_model for pci in entry.gpu_models)
    )


@lru_cache(maxsize=4096)
def layout_for(
    gpu_model: mig_layout.GpuModel | None, mig_devices: tuple[MigDeviceSpec, ...]
) -> tuple[mig_layout.Layout | None, str | None]:
    """The places of the instances, or the reason why they are unknown."""
    if not mig_devices:
        return (), None
    if gpu_model is None:
        return None, f"the label {well_known.GPU_PRODUCT} has no GPU model with MIG"
    misfit = next(
        (text for mig_device in mig_devices if (text := _misfit(gpu_model, mig_device))), None
    )
    if misfit is not None:
        return None, misfit
    placed = mig_layout.layout_of(
        (mig_device.profile, mig_device.start)
        for mig_device in mig_devices
        if mig_device.start is not None
    )
    if len(placed) not in (0, len(mig_devices)):
        return None, "some instances have a position and some have none"
    if placed:
        flaw = mig_layout.flaw(gpu_model, placed)
        return (None, flaw) if flaw else (placed, None)
    layout = layout_cost.arrange(
        gpu_model, tuple(sorted(mig_device.profile for mig_device in mig_devices))
    )
    counts = Counter(mig_device.profile for mig_device in mig_devices)
    text = " and ".join(f"{count} x {name}" for name, count in counts.items())
    return layout, None if layout is not None else f"{text} do not fit on one {gpu_model.name}"


def _misfit(gpu_model: mig_layout.GpuModel, mig_device: MigDeviceSpec) -> str | None:
    profile = mig_layout.profile_of(gpu_model, mig_device.profile)
    if profile is None:
        return f"{mig_device.profile} is no profile of {gpu_model.name}"
    if mig_device.size is not None and mig_device.size != profile.size:
        return f"{mig_device.profile} has {profile.size} memory slices and not {mig_device.size}"
    return None
