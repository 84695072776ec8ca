"""The labels of a fake GPU node: those of the seed operator, of NVIDIA's feature discovery, and
the short ones that people select by (``gpu-type: a100``)."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from fakegpu import names
from fakegpu.catalog.products import Product, label_value, product_of
from fakegpu.node.supply import mig_resource, single_profile
from fakegpu.topology.nodetopology import MigDevice, NodeTopology, Shared
from scheduler.model import mig
from scheduler.model import names as words

PREFIX: Final = "nvidia.com/"
MACHINE: Final = "Fake-GPU-Machine"


def labels(topology: NodeTopology, *, is_kwok: bool, is_numbered: bool) -> dict[str, str]:
    """All that a node of a pool carries."""
    found = {names.DEPLOY_EXPORTER: "true", names.FAKE: "true"}
    if not is_kwok:
        found |= dict.fromkeys(names.DEPLOY_ON_NODE, "true")
    if not topology.gpus:
        return found
    product = product_of(topology.gpu_product, topology.gpu_memory)
    found |= _seed(topology) | _discovered(topology, product) | _short(topology, product)
    found |= _mig(topology)
    if is_numbered and can_be_numbered(topology):
        found[words.NUMBERED] = "numbered"
    return found


def can_be_numbered(topology: NodeTopology) -> bool:
    """Whether a unit of ``nvidia.com/gpu`` is a whole GPU for each index from 0 on."""
    if topology.dra == "instead":
        return False  # there are no such units
    return topology.sharing is UNSET and not any(gpu.is_cut for gpu in topology.gpus)


def _seed(topology: NodeTopology) -> dict[str, str]:
    single = single_profile(topology) if topology.mig_strategy == "single" else ""
    product, memory, count = topology.gpu_product, topology.gpu_memory, len(topology.gpus)
    shared = _shared(topology)
    if single:
        instances = [device for gpu in topology.gpus for device in gpu.instances]
        product, memory = f"{product}-MIG-{single}", instances[0].memory
        count = len(instances)
    elif single is None:
        product, memory, count = f"{product}-MIG-INVALID", 0, 0
    if shared is not None and shared.rename is UNSET:
        product += "-SHARED"
    return {
        PREFIX + "gpu.memory": str(memory),
        PREFIX + "gpu.product": label_value(product),
        PREFIX + "gpu.count": str(count),
        PREFIX + "gpu.present": "true",
        PREFIX + "mig.strategy": topology.mig_strategy,
    }


def _shared(topology: NodeTopology) -> Shared | None:
    return None if topology.sharing is UNSET else topology.sharing.of(words.GPU)


def _discovered(topology: NodeTopology, product: Product | None) -> dict[str, str]:
    """What gpu-feature-discovery adds."""
    shared = _shared(topology)
    board = mig.board_of(topology.gpu_product, topology.gpu_memory)
    found = {
        PREFIX + "gpu.machine": MACHINE,
        PREFIX + "gpu.mode": "compute",
        PREFIX + "gpu.replicas": str(shared.replicas if shared else 1),
        PREFIX + "gpu.sharing-strategy": "time-slicing" if shared else "none",
        PREFIX + "mig.capable": "true" if board else "false",
    }
    if product is not None:
        found[PREFIX + "gpu.family"] = product.family
        found[PREFIX + "gpu.compute.major"] = str(product.compute[0])
        found[PREFIX + "gpu.compute.minor"] = str(product.compute[1])
    if topology.driver_version is not UNSET:
        found |= _version("cuda.driver", topology.driver_version, ("major", "minor", "rev"))
        found[PREFIX + "cuda.driver-version.full"] = label_value(topology.driver_version)
    if topology.cuda_version is not UNSET:
        found |= _version("cuda.runtime", topology.cuda_version, ("major", "minor"))
    return found


def _version(key: str, version: str, parts: tuple[str, ...]) -> dict[str, str]:
    numbers = version.split(".")
    return {
        f"{PREFIX}{key}.{part}": label_value(number)
        for part, number in zip(parts, numbers, strict=False)
    }


def _short(topology: NodeTopology, product: Product | None) -> dict[str, str]:
    kind = product.kind.partition("-")[0] if product else topology.gpu_product.lower()
    if product is not None and product.kind.startswith("rtx"):
        kind = product.kind
    return {
        PREFIX + "gpu": "true",
        "gpu-type": label_value(kind),
        "gpu-memory": f"{round(topology.gpu_memory / 1024)}gb",
        "gpu-count": str(len(topology.gpus)),
    }


def _mig(topology: NodeTopology) -> dict[str, str]:
    """One set of labels for each profile, in strategy ``mixed``."""
    if topology.mig_strategy != "mixed":
        return {}
    found: dict[str, str] = {}
    counts: dict[str, int] = {}
    for gpu in topology.gpus:
        for device in gpu.instances:
            counts[device.profile] = counts.get(device.profile, 0) + 1
            found |= _profile(topology.product_of(gpu), device)
    for profile, count in counts.items():
        found[f"{mig_resource(profile)}.count"] = str(count)
    return found


def _profile(product: str, device: MigDevice) -> dict[str, str]:
    key = mig_resource(device.profile)
    board = mig.board_of(product, profiles=(device.profile,))
    profile = mig.profile_of(board, device.profile) if board else None
    found = {
        f"{key}.product": label_value(f"{product}-MIG-{device.profile}"),
        f"{key}.memory": str(device.memory),
        f"{key}.replicas": "1",
        f"{key}.sharing-strategy": "none",
    }
    if profile is not None and board is not None:
        known = product_of(product)
        found[f"{key}.slices.gi"] = str(profile.compute)
        found[f"{key}.slices.ci"] = str(profile.compute)
        if known is not None:
            share = known.multiprocessors * profile.compute // (board.compute_slices or 1)
            found[f"{key}.multiprocessors"] = str(share)
    return found
