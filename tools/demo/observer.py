"""Decodes the API server's objects into rows and usage with the scheduler's own decoders."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from gpuctl.output import table
from gpuctl.simulate.manifests import Raw
from gpuctl.simulate.result import PLACED, WAITS, Row, visible_devices
from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from scheduler.watch.decode import nodes as decode_nodes
from scheduler.watch.decode import pods as decode_pods


class Observer(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the cluster at one instant."""

    rows: list[Row]
    usage: list[table.Usage]


def look(nodes: Iterable[Raw], pods: Iterable[Raw]) -> Observer:
    """Decode the state from the API's objects."""
    decoded = [decode_pods.to_pod(_decoded(decode_pods.POD, raw)) for raw in pods]
    decoded.sort(key=lambda pod: (pod.created, _natural(pod.name)))
    cluster = Cluster()
    fold(
        cluster,
        ev.NodesReplaced(
            tuple(decode_nodes.to_node(_decoded(decode_nodes.NODE, raw)) for raw in nodes)
        ),
    )
    fold(cluster, ev.PodsReplaced(tuple(decoded)))
    return Observer(rows=[_row(pod) for pod in decoded], usage=table.usage_of(cluster))


def _decoded(decoder: msgspec.json.Decoder[Any], raw: Raw) -> Any:
    return decoder.decode(msgspec.json.encode(raw))


def _natural(name: str) -> tuple[str, int]:
    """A sort key by which ``web-10`` follows ``web-9``."""
    start, _, number = name.rpartition("-")
    return (start, int(number)) if number.isdigit() else (name, -1)


def _row(pod: Pod) -> Row:
    is_placed = bool(pod.node_name)
    cuda = visible_devices(pod, pod.annotations.get(well_known.CUDA_VISIBLE_DEVICES))
    return Row(
        namespace=pod.namespace,
        pod=pod.name,
        node=pod.node_name or None,
        devices=pod.annotations.get(well_known.DEVICES),
        cuda_visible_devices=cuda if is_placed else None,
        requested=_asked(pod),
        granted=pod.gpu_requests if is_placed else {},
        reason=None if is_placed else pod.condition.message or None,
        state=PLACED if is_placed else WAITS,
    )


def _asked(pod: Pod) -> dict[str, int]:
    """The pod's requests before a fallback."""
    source, arrow, target = pod.annotations.get(well_known.FALLBACK, "").partition("->")
    if not arrow:
        return pod.gpu_requests
    old, new = well_known.mig_resource(source), well_known.mig_resource(target)
    return {old if resource == new else resource: n for resource, n in pod.gpu_requests.items()}
