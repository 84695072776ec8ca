"""The cluster's topology: the ConfigMap's text -> normalised pools.

Each pool is decoded separately: an invalid one affects its own nodes only. The whole text may be a
values file (below ``topology`` or ``cluster``) or the content of a ConfigMap; the form of before
2024 (``config.node-autofill``) is read as the pool ``default``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fakegpu import names
from fakegpu.catalog.profiles import Document
from fakegpu.topology.invalid import Invalid, convert, read_yaml
from fakegpu.topology.node_topology import MigStrategy
from fakegpu.topology.pool_formats import read_pool
from fakegpu.topology.pools import Pool, Topology

DEFAULT_POOL: Final = "default"
#: The pools of an empty document: two Tesla K80.
DEFAULT_POOLS: Final[Document] = {
    DEFAULT_POOL: {"gpuProduct": "Tesla-K80", "gpuCount": 2, "gpuMemory": 11441}
}


class _Whole(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    node_pools: dict[str, Any] | None = None
    node_pool_label_key: str = names.POOL_LABEL
    mig_strategy: MigStrategy = "mixed"
    #: The seed's settings for installing NVIDIA's operator; accepted for compatibility and ignored.
    gpu_operator: dict[str, Any] | None = None


class _Autofill(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    gpu_count: int
    gpu_memory: int | str
    gpu_product: str


class _Old(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    node_autofill: _Autofill
    mig_strategy: MigStrategy = "mixed"


def read_config_map(
    data: Mapping[str, str] | None, documents: Mapping[str, Document] = {}
) -> Topology:
    """The topology of the ConfigMap's data, or Invalid."""
    text = (data or {}).get(names.TOPOLOGY_KEY)
    if text is None:
        raise Invalid("", f"missing key {names.TOPOLOGY_KEY} in the topology ConfigMap")
    return read_topology(text, documents)


def read_topology(text: str, documents: Mapping[str, Document] = {}) -> Topology:
    """The topology of a text, or Invalid; ``documents`` are the cluster's own profiles."""
    if not text.strip():
        raise Invalid("", "topology data is empty")
    document = read_yaml(text, "")
    path = ""
    for wrapper in ("cluster", "topology"):  # ``cluster``, if set, replaces ``topology``
        if isinstance(document, dict) and document.get(wrapper):
            document, path = document[wrapper], wrapper
            break
    if isinstance(document, dict) and "config" in document and not path:
        return _read_old(document["config"])
    whole = convert(document, _Whole, path)
    pools: dict[str, Pool] = {}
    problems: dict[str, str] = {}
    raw = DEFAULT_POOLS if whole.node_pools is None else whole.node_pools
    for name, one in raw.items():
        try:
            pools[name] = read_pool(name, one, f"{path}.nodePools.{name}".lstrip("."), documents)
        except Invalid as problem:
            problems[name] = str(problem)
    return Topology(
        label_key=whole.node_pool_label_key,
        mig_strategy=whole.mig_strategy,
        pools=pools,
        problems=problems,
    )


def read_profile(text: str) -> Document:
    """A user's own profile, or Invalid."""
    document = read_yaml(text, names.PROFILE_KEY)
    if not isinstance(document, dict):
        raise Invalid(names.PROFILE_KEY, "expected a map")
    return document


def _read_old(document: object) -> Topology:
    old = convert(document, _Old, "config")
    auto = old.node_autofill
    flat = {
        "gpuProduct": auto.gpu_product,
        "gpuCount": auto.gpu_count,
        "gpuMemory": auto.gpu_memory,
    }
    pool = read_pool(DEFAULT_POOL, flat, "config.node-autofill", {})
    return Topology(
        label_key=names.POOL_LABEL,
        mig_strategy=old.mig_strategy,
        pools={DEFAULT_POOL: pool},
    )
