"""The writes that turn a pool of slices into its desired state.

A pool has a generation, which all of its slices carry and which grows with every change. Schedulers
use a pool only if all slices of its newest generation exist. So either all slices are written, or
none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from fakegpu import names
from fakegpu.dra.api_types import API_VERSION, SliceFacts, digest

Json = dict[str, Any]


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """One driver's devices of one node; slices are named ``base``, ``base-1``, ``base-2`` ..."""

    driver: str
    node: str
    node_uid: str
    base: str

    def has(self, name: str) -> bool:
        """Whether a slice of that name belongs to the pool."""
        head, _, number = name.rpartition("-")
        return name == self.base or (head == self.base and number.isdigit())


class Changes(msgspec.Struct, frozen=True):
    """Slices by name, and the names of slices to delete."""

    write: tuple[tuple[str, Json], ...] = ()
    remove: tuple[str, ...] = ()


def changes(pool: Pool, contents: Sequence[Json], there: Iterable[SliceFacts]) -> Changes:
    """The difference between the existing and the desired slices."""
    known = {one.name: one for one in there if pool.has(one.name)}
    wanted = {
        _name(pool, number): _spec(pool, contents, one) for number, one in enumerate(contents)
    }
    remove = tuple(sorted(known.keys() - wanted.keys()))
    newest = max((one.generation for one in known.values()), default=0)
    expected = {(name, newest, digest(spec)) for name, spec in wanted.items()}
    if expected <= {(one.name, one.generation, one.digest) for one in known.values()}:
        return Changes(remove=remove)
    write = tuple(
        (name, _body(pool, name, {**spec, "pool": {**spec["pool"], "generation": newest + 1}}))
        for name, spec in wanted.items()
    )
    return Changes(write, remove)


def _name(pool: Pool, number: int) -> str:
    return f"{pool.base}-{number}" if number else pool.base


def _spec(pool: Pool, contents: Sequence[Json], content: Json) -> Json:
    return {
        "driver": pool.driver,
        "nodeName": pool.node,
        "pool": {"name": pool.node, "resourceSliceCount": len(contents)},
        **content,
    }


def _body(pool: Pool, name: str, spec: Json) -> Json:
    owner = {"apiVersion": "v1", "kind": "Node", "name": pool.node, "uid": pool.node_uid}
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceSlice",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/managed-by": names.OPERATOR},
            # The garbage collector deletes the slices with the node.
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": spec,
    }
