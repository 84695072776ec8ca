"""Labels of a fake GPU node: the seed operator's, gpu-feature-discovery's, and short ones.

``tests/golden/gfd`` has the output of the real gpu-feature-discovery; a test compares both and
lists the differences. ``nvidia.com/gfd.timestamp`` is left out: it changes at each start.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET

from fakegpu import names
from fakegpu.catalog.engines import Engines, engines_of
from fakegpu.catalog.products import Product, label_value, product_of
from fakegpu.node.advertised_devices import mig_resource, single_profile
from fakegpu.topology.node_topology import MigDevice, NodeTopology
from scheduler.model import well_known as words
from scheduler.model.mig import layout

PREFIX: Final = "nvidia.com/"
MACHINE: Final = "Fake-GPU-Machine"
#: Cluster UUID and clique of NVIDIA's mock library: all GPUs are in one NVLink domain.
CLIQUE: Final = "00000000-0000-0000-0000-000000000001.0"


class _Sharing(msgspec.Struct, frozen=True):
    """The sharing of a resource, for labels."""

    replicas: int = 1
    strategy: str = "none"
    suffix: str = ""


_NOT_OFFERED: Final = _Sharing(0)
_INVALID: Final = _Sharing(0, "")


def discovered(topology: NodeTopology) -> dict[str, str]:
    """All discovery labels; the topology has at least one GPU."""
    product = product_of(topology.gpu_product, topology.gpu_memory)
    return {
        **_versions(topology),
        **_machine(topology, product),
        **_gpu(topology),
        **_instances(topology),
    }


def _versions(topology: NodeTopology) -> dict[str, str]:
    found: dict[str, str] = {}
    if topology.driver_version is not UNSET:
        driver = topology.driver_version
        found |= _version("cuda.driver", driver, ("major", "minor", "rev"))
        found |= _version("cuda.driver-version", driver, ("major", "minor", "revision"))
        found[PREFIX + "cuda.driver-version.full"] = label_value(driver)
    if topology.cuda_version is not UNSET:
        cuda = topology.cuda_version
        found |= _version("cuda.runtime", cuda, ("major", "minor"))
        found |= _version("cuda.runtime-version", cuda, ("major", "minor"))
        found[PREFIX + "cuda.runtime-version.full"] = label_value(cuda)
    return found


def _version(key: str, version: str, parts: tuple[str, ...]) -> dict[str, str]:
    numbers = version.split(".")
    return {
        f"{PREFIX}{key}.{part}": label_value(number)
        for part, number in zip(parts, numbers, strict=False)
    }


def _machine(topology: NodeTopology, product: Product | None) -> dict[str, str]:
    gpu_model = layout.gpu_model_of(topology.gpu_product, topology.gpu_memory)
    found = {
        PREFIX + "gpu.machine": MACHINE,
        PREFIX + "gpu.mode": "compute",
        PREFIX + "mig.capable": "true" if gpu_model else "false",
        PREFIX + "mps.capable": "false",
        PREFIX + "vgpu.present": "false",
    }
    if topology.mig_strategy != "none":
        found[PREFIX + "mig.strategy"] = topology.mig_strategy
    if product is not None:
        found[PREFIX + "gpu.family"] = product.family
        found[PREFIX + "gpu.compute.major"] = str(product.compute[0])
        found[PREFIX + "gpu.compute.minor"] = str(product.compute[1])
        if product.is_in_fabric:
            found[PREFIX + "gpu.clique"] = CLIQUE
    return found


def _gpu(topology: NodeTopology) -> dict[str, str]:
    """The labels of ``nvidia.com/gpu``: GPUs, or instances in strategy ``single``."""
    name, count = topology.gpu_product, len(topology.gpus)
    if topology.mig_strategy == "single":
        single = single_profile(topology)
        if single is None:
            return _resource(words.GPU, f"{name}-MIG-INVALID", 0, 0, _INVALID)
        if single:
            found = [device for gpu in topology.gpus for device in gpu.instances]
            return _of_profile(topology, words.GPU, name, found)
    is_offered = not all(gpu.has_mig for gpu in topology.gpus)
    sharing = _sharing(topology, words.GPU) if is_offered else _NOT_OFFERED
    return _resource(words.GPU, name, topology.gpu_memory, count, sharing)


def _instances(topology: NodeTopology) -> dict[str, str]:
    """The labels of each profile, in strategy ``mixed``."""
    if topology.mig_strategy != "mixed":
        return {}
    devices: dict[str, list[MigDevice]] = {}
    products: dict[str, str] = {}
    for gpu in topology.gpus:
        for device in gpu.instances:
            devices.setdefault(device.profile, []).append(device)
            products[device.profile] = topology.product_of(gpu)
    found: dict[str, str] = {}
    for profile, there in devices.items():
        found |= _of_profile(topology, mig_resource(profile), products[profile], there)
    return found


def _of_profile(
    topology: NodeTopology, resource: str, product: str, devices: list[MigDevice]
) -> dict[str, str]:
    """The labels of a resource that counts instances of one profile."""
    one, profile = devices[0], devices[0].profile
    name = f"{product}-MIG-{profile.replace('+', '.')}"
    found = _resource(resource, name, one.memory, len(devices), _sharing(topology, resource))
    gpu_model = layout.gpu_model_of(product, profiles=(profile,))
    known = layout.profile_of(gpu_model, profile) if gpu_model else None
    if gpu_model is not None and known is not None:
        of_product = product_of(product)
        engines = engines_of(gpu_model, known, of_product.multiprocessors if of_product else 0)
        found |= {
            f"{resource}.slices.gi": str(known.compute),
            f"{resource}.slices.ci": str(known.compute),
            **_engines(resource, engines),
        }
    return found


def _engines(resource: str, engines: Engines) -> dict[str, str]:
    counts = msgspec.structs.asdict(engines)
    found = {f"{resource}.multiprocessors": str(counts.pop("multiprocessors"))}
    return found | {f"{resource}.engines.{name}": str(count) for name, count in counts.items()}


def _resource(
    resource: str, product: str, memory_mib: int, count: int, sharing: _Sharing
) -> dict[str, str]:
    return {
        f"{resource}.product": label_value(product + sharing.suffix),
        f"{resource}.memory": str(memory_mib),
        f"{resource}.count": str(count),
        f"{resource}.replicas": str(sharing.replicas),
        f"{resource}.sharing-strategy": sharing.strategy,
    }


def _sharing(topology: NodeTopology, resource: str) -> _Sharing:
    shared = topology.shared.of(resource)
    if shared is None:
        return _Sharing()
    suffix = "-SHARED" if shared.rename is UNSET else ""
    return _Sharing(shared.replicas, "time-slicing", suffix)


def labels(topology: NodeTopology, *, is_kwok: bool, is_index_assigned: bool) -> dict[str, str]:
    """All labels of a node in a pool."""
    found = {names.DEPLOY_EXPORTER: "true", names.FAKE: "true"}
    if not is_kwok:
        found |= dict.fromkeys(names.DEPLOY_ON_NODE, "true")
    if not topology.gpus:
        return found
    found |= discovered(topology) | _short(topology)
    if is_index_assigned and can_be_numbered(topology):
        found[words.NUMBERED] = "numbered"
    return found


def can_be_numbered(topology: NodeTopology) -> bool:
    """Whether each unit of ``nvidia.com/gpu`` is a whole GPU, with indexes from 0 on."""
    if topology.dra == "instead":
        return False  # there are no such units
    return topology.sharing is UNSET and not any(gpu.has_mig for gpu in topology.gpus)


def _short(topology: NodeTopology) -> dict[str, str]:
    """Short labels for selectors; NVIDIA's operator writes ``gpu.present``, not its discovery."""
    product = product_of(topology.gpu_product, topology.gpu_memory)
    kind = product.kind.partition("-")[0] if product else topology.gpu_product.lower()
    if product is not None and product.kind.startswith("rtx"):
        kind = product.kind
    return {
        PREFIX + "gpu": "true",
        PREFIX + "gpu.present": "true",
        "gpu-type": label_value(kind),
        "gpu-memory": f"{round(topology.gpu_memory / 1024)}gb",
        "gpu-count": str(len(topology.gpus)),
    }
