"""Mapped pods: the annotation names node and devices; we check that it can be had.

A map narrows the choice, it never overrides a filter (design 5.1 to 5.3).
"""

from __future__ import annotations

import msgspec

from scheduler.decide.filters.devices import CLAIMED, absence, broken, cut
from scheduler.decide.view import Profile, View
from scheduler.model import names
from scheduler.model.device import Devices
from scheduler.model.gpumap import GpuMap, IndexRule, MapEntry, MapError, index_of, parse
from scheduler.model.node import Node
from scheduler.model.pod import Pod, Role
from scheduler.model.reason import Code, Reason
from scheduler.model.shares import (
    CudaMode,
    Want,
    device_shares,
    devices_needed,
    share_key,
    visible,
)
from scheduler.state.allocation import failed_gpus
from scheduler.state.ledger import NodeBooks

KUBELET_PICKS = Reason(
    code=Code.NODE_COUNTS_DEVICES,
    text="node(s) where the kubelet picks GPUs run pods that hold some; a mapped pod cannot mix",
)
NOT_NAMED = Reason(
    code=Code.NOT_IN_MAP, text="node(s) not named by gpu-scheduling-map", resolvable=False
)
_CUDA_MODES = {mode.value: mode for mode in CudaMode}


class Target(msgspec.Struct, frozen=True):
    """Where a mapped pod must go: ``node_name`` is real, ``entry`` its line of the map."""

    node_name: str
    entry: MapEntry


def target(pod: Pod, view: View, profile: Profile) -> Target | Reason:
    """The pod's line of its map, resolved to a node; or why there is none."""
    assert pod.map_text is not None
    if not view.namespace(pod.namespace).may_map(profile.maps_allow):
        return _refused(
            Code.MAP_NOT_ALLOWED,
            f"namespace {pod.namespace} may not use gpu-scheduling-map"
            f" (label it {names.MAPS_ALLOWED}=allowed)",
        )
    try:
        gpu_map = parse(pod.map_text)
    except MapError as error:
        return _refused(Code.MAP_INVALID, str(error))
    index = _index(pod, gpu_map, view)
    if isinstance(index, Reason):
        return index
    entry = gpu_map.entries[index]
    problem = _shares_problem(pod, entry)
    return problem or _resolved(entry, view)


def wants(pod: Pod) -> tuple[Want, ...]:
    """Whole GPUs per container, in order of declaration (init containers first)."""
    return tuple(
        Want(container.devices.get(names.GPU, 0), container.role is Role.INIT)
        for container in pod.containers
    )


def cuda_mode(pod: Pod) -> CudaMode:
    """The pod's mode; an unknown one counts as ``auto`` (the webhook refuses it)."""
    return _CUDA_MODES.get(pod.annotations.get(names.CUDA_MODE, ""), CudaMode.AUTO)


def device_problem(pod: Pod, entry: MapEntry, books: NodeBooks) -> Reason | None:
    """Why the line's devices cannot be had on the node, or None."""
    node = books.node
    assert node is not None
    failed = failed_gpus(books).intersection(entry.devices)
    problem = broken(min(failed)) if failed else absence(node, entry.devices)
    if problem is not None:
        return problem
    if not _is_by_number(pod, node):
        return None  # the kubelet picks: nothing is held by number
    return cut(node, entry.devices) or _handed_out(pod, books) or _held(pod, entry, books)


def _handed_out(pod: Pod, books: NodeBooks) -> Reason | None:
    """Who else gives GPUs to pods here, so that it is not known which are free."""
    node = books.node
    assert node is not None
    if books.claims and not node.honours_numbers:
        return CLAIMED
    if not node.is_numbered and books.tally.holds_plugin_devices:
        return KUBELET_PICKS
    if not pod.gpu_requests and books.tally.holds_slices:
        return KUBELET_PICKS  # on which card an instance is cut is not known yet
    if node.is_numbered and books.tally.unknown:
        return Reason(code=Code.DEVICES_UNKNOWN, text="node(s) had GPUs held under unknown numbers")
    return None


def literal_problem(pod: Pod, entry: MapEntry, books: NodeBooks) -> Reason | None:
    """Whether a container was told other devices, as a literal, than the map says by now.

    Only where the map's numbers reach the hardware: elsewhere a literal is the author's own.
    """
    assert books.node is not None
    mode = cuda_mode(pod)
    if mode is CudaMode.NONE or not _is_by_number(pod, books.node):
        return None
    requests = wants(pod)
    shares = device_shares(requests, entry.devices) if devices_needed(requests) else None
    for position, container in enumerate(pod.containers):
        expected = visible(entry.devices if shares is None else shares[position], mode)
        literal = container.cuda_literal
        if literal is not None and expected and literal != expected:
            return _refused(
                Code.MAP_CHANGED,
                f"MapChanged: container {container.name} was created with CUDA_VISIBLE_DEVICES"
                f"={literal[:40]} and gpu-scheduling-map now says {expected}; recreate the pod",
            )
    return None


def assignment(pod: Pod, entry: MapEntry, books: NodeBooks) -> Devices:
    """What the pod gets: by number where numbers mean something, else by count."""
    node = books.node
    assert node is not None
    by_number = _is_by_number(pod, node)
    counts = tuple(
        (node.unit(resource), count)
        for resource, count in sorted(pod.gpu_requests.items())
        if not (by_number and resource == names.GPU)
    )
    return Devices(entry.devices if by_number else (), counts)


def environment(
    pod: Pod, devices: Devices, entry: MapEntry | None = None
) -> tuple[str | None, tuple[str, ...]]:
    """The value of CUDA_VISIBLE_DEVICES, and one per requesting container if several.

    Where the kubelet picks, the map's numbers are told only to a pod that insists on them.
    """
    mode = cuda_mode(pod)
    insists = mode in (CudaMode.INDEX, CudaMode.LOCAL) and pod.requests.get(names.GPU, 0) > 0
    numbers = devices.numbers or (entry.devices if entry and insists else ())
    if not numbers or mode is CudaMode.NONE:
        return None, ()
    value = visible(numbers, mode)
    requesting = [want for want in wants(pod) if want.count]
    if len(requesting) < 2:
        return value, ()
    shares = device_shares(requesting, numbers)
    return value, tuple(visible(share, mode) for share in shares)


def keys_offered(pod: Pod) -> frozenset[str]:
    """The annotations with devices that a Binding of this pod can carry, given numbers."""
    if cuda_mode(pod) is CudaMode.NONE:
        return frozenset()
    requesting = sum(1 for want in wants(pod) if want.count)
    shares = {share_key(position, requesting) for position in range(requesting)}
    return frozenset({names.CUDA_VISIBLE_DEVICES} | shares)


def _is_by_number(pod: Pod, node: Node) -> bool:
    """Whether the map's numbers reach the hardware, past the device plugin or through ours."""
    return not pod.gpu_requests or (node.is_numbered and names.GPU in pod.gpu_requests)


def _index(pod: Pod, gpu_map: GpuMap, view: View) -> int | Reason:
    kind = pod.owner.kind if pod.owner else None
    index = index_of(name=pod.name, controller_kind=kind, labels=pod.labels)
    if index is IndexRule.UNKNOWN:
        return _refused(
            Code.INDEX_UNKNOWN,
            "the pod's index for gpu-scheduling-map is unknown (a bare pod's name must end in"
            " -<number>)",
        )
    held = view.indexes_held(pod.workload) if pod.owner else {}
    if index is IndexRule.ASSIGNED:
        free = next((i for i in gpu_map.indexes if i not in held), None)
        return _all_held(pod, gpu_map, held) if free is None else free
    assert isinstance(index, int)
    if index not in gpu_map.entries:
        return _refused(Code.INDEX_NOT_IN_MAP, f"gpu-scheduling-map has no line for index {index}")
    if index in held:
        name = held[index].name
        return _refused(Code.INDEX_HELD, f"index {index} is held by pod {name} until it is gone")
    return index


def _all_held(pod: Pod, gpu_map: GpuMap, held: dict[int, Pod] | object) -> Reason:
    assert isinstance(held, dict)
    count = len(gpu_map.indexes)
    if any(other.revision != pod.revision for other in held.values()):
        return _refused(
            Code.INDEX_HELD_BY_OLDER_REVISION,
            f"IndexHeldByOlderRevision: all {count} indexes of gpu-scheduling-map are held and an"
            " older revision holds some; use maxSurge: 0",
        )
    return _refused(
        Code.INDEX_HELD, f"all {count} indexes of gpu-scheduling-map are held by its siblings"
    )


def _shares_problem(pod: Pod, entry: MapEntry) -> Reason | None:
    needed = devices_needed(wants(pod))
    if not needed or needed == len(entry.devices):
        return None
    return _refused(
        Code.SHARES_MISMATCH,
        f"the containers request {needed} GPUs and line {entry.index} of gpu-scheduling-map"
        f" gives {len(entry.devices)}",
    )


def _resolved(entry: MapEntry, view: View) -> Target | Reason:
    found = view.resolve(entry.node)
    if not found:
        return _refused(
            Code.MAP_NODE_UNKNOWN,
            f"no node is named {entry.node} or labelled gpu-node-name={entry.node}",
        )
    if len(found) > 1:
        return _refused(
            Code.MAP_NODE_AMBIGUOUS,
            f"{entry.node} of gpu-scheduling-map fits {len(found)} nodes:"
            f" {' and '.join(sorted(found)[:3])}",
        )
    return Target(next(iter(found)), entry)


def _held(pod: Pod, entry: MapEntry, books: NodeBooks) -> Reason | None:
    holders = books.tally.holders
    for number in entry.devices:
        for holding in holders.get(number, ()):
            if not holding.is_mapped or holding.sharing != pod.sharing:
                return Reason(
                    code=Code.DEVICE_HELD,
                    text=f"node(s) where GPU {number} is held by a pod that does not share it",
                )
    return None


def _refused(code: Code, text: str) -> Reason:
    return Reason(code=code, text=text, resolvable=False)
