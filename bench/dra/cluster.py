"""The control plane with the objects of one part of the benchmark at a time."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from bench.dra.objects import GROUP, SLICES, Json, claims_path, node, slices
from bench.load import Request
from bench.rounds import delete_all, finished, send
from bench.schedulers import ROOT
from fakegpu.topology.node_topology import NodeTopology
from gpuctl.doctor.collect_claims import excesses
from scheduler.watch.decode.dra.claims import CLAIMS
from tools.controlplane import ControlPlane

CLASSES: Final = ROOT / "cluster" / "fakegpu-device-classes.yaml"
NO_FINALIZERS: Final = {"metadata": {"finalizers": None}}
_tags = itertools.count(1)


class Cluster:
    """The control plane with DeviceClasses."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self.plane = plane
        self._directory = directory
        plane.kubectl("apply", "-f", str(CLASSES))

    def send(self, requests: Iterable[Request]) -> None:
        """Send requests from a process of its own."""
        finished(send(self.plane, self._directory / f"{next(_tags)}.jsonl", requests))

    @contextlib.contextmanager
    def nodes(self, count: int, topology: Callable[[int], NodeTopology]) -> Iterator[None]:
        """Nodes with their slices."""
        try:
            self.send(node(number) for number in range(count))
            self.send(one for number in range(count) for one in slices(number, topology(number)))
            yield
        finally:
            for path in (SLICES, "/api/v1/nodes"):
                delete_all(self.plane.client, path)

    def claims(self, namespace: str) -> list[Json]:
        """The claims of a namespace."""
        path = claims_path(namespace)
        items: list[Json] = self.plane.client.request("GET", path, timeout_s=60)["items"]
        return items

    def delete_claims(self, namespace: str) -> None:
        """Delete the claims of a namespace; kube-controller-manager, which does not run here, would
        remove their finalizers.
        """
        path = claims_path(namespace)
        names = [one["metadata"]["name"] for one in self.claims(namespace)]
        self.send(Request("PATCH", f"{path}/{name}", NO_FINALIZERS) for name in names)
        delete_all(self.plane.client, path)

    def allocated(self) -> int:
        """The number of allocated devices of the cluster, none of them more than there is."""
        claims, slices = (
            self.plane.client.request("GET", path, timeout_s=60)["items"]
            for path in (f"{GROUP}/resourceclaims", SLICES)
        )
        return allocated(claims, slices)


def allocated(claims: Iterable[Json], slices: Iterable[Json]) -> int:
    """The number of devices that claims have; RuntimeError if claims have together more of a device
    or of a counter than there is (the check of ``gpuctl doctor``).
    """
    raw = [msgspec.json.encode(one) for one in claims]
    found = excesses(raw, map(msgspec.json.encode, slices))
    if found:
        raise RuntimeError(f"{found[0].what} is in claims {', '.join(found[0].claims)}")
    read = (CLAIMS.read(one) for one in raw)
    given = (one.allocation for one in read if one is not None and one.allocation is not None)
    return sum(len(one.results) for one in given)
