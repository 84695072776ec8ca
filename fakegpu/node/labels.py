"""The labels of a fake GPU node: those of the seed operator, of NVIDIA's feature discovery, and
the short ones that people select by (``gpu-type: a100``)."""

from __future__ import annotations

from msgspec import UNSET

from fakegpu import names
from fakegpu.catalog.products import label_value, product_of
from fakegpu.node.feature_discovery import PREFIX, discovered
from fakegpu.topology.node_topology import NodeTopology
from scheduler.model import well_known as words


def labels(topology: NodeTopology, *, is_kwok: bool, is_numbered: bool) -> dict[str, str]:
    """All that a node of a pool carries."""
    found = {names.DEPLOY_EXPORTER: "true", names.FAKE: "true"}
    if not is_kwok:
        found |= dict.fromkeys(names.DEPLOY_ON_NODE, "true")
    if not topology.gpus:
        return found
    found |= discovered(topology) | _short(topology)
    if is_numbered and can_be_numbered(topology):
        found[words.NUMBERED] = "numbered"
    return found


def can_be_numbered(topology: NodeTopology) -> bool:
    """Whether a unit of ``nvidia.com/gpu`` is a whole GPU for each index from 0 on."""
    if topology.dra == "instead":
        return False  # there are no such units
    return topology.sharing is UNSET and not any(gpu.is_cut for gpu in topology.gpus)


def _short(topology: NodeTopology) -> dict[str, str]:
    """Labels that people select by; NVIDIA's operator writes ``gpu.present``, not its discovery."""
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
