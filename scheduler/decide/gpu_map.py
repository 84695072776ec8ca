"""Mapped pods: the annotation names node and devices; we check that it can be had.

A map narrows the choice, it never overrides a filter (design 5.1 to 5.3).
"""

from __future__ import annotations

import msgspec

from scheduler.decide.filters.devices import CLAIMED, absence, broken, cut
from scheduler.decide.view import Profile, View
from scheduler.model import well_known
from scheduler.model.cuda_env import (
    ContainerGpus,
    CudaMode,
    device_shares,
    devices_needed,
    share_key,
    visible,
)
from scheduler.model.device import Devices
from scheduler.model.gpu_map import GpuMap, MapEntry, MapError, parse, shown
from scheduler.model.node import Node
from scheduler.model.pod import Pod, Role
from scheduler.model.pod_index import IndexRule
from scheduler.model.reason import Reason, ReasonCode
from scheduler.state.node_info import NodeInfo
from scheduler.state.reported_devices import failed_gpus

KUBELET_PICKS = Reason(
    code=ReasonCode.NODE_COUNTS_DEVICES,
    text="node(s) where the kubelet picks GPUs run pods that hold some; a mapped pod cannot mix",
)
NOT_NAMED = Reason(
    code=ReasonCode.NOT_IN_MAP, text="node(s) not named by gpu-scheduling-map", resolvable=False
)
_CUDA_MODES = {mode.value: mode for mode in CudaMode}


class Target(msgspec.Struct, frozen=True):
    """Where a mapped pod must go: ``node_name`` is real, ``entry`` its line of the map."""

    node_name: str
    entry: MapEntry


class Lines(msgspec.Struct, frozen=True):
    """The lines that a pod may take, by index: its own, or all that no sibling holds.

    ``is_own`` where its number is given. ``held`` counts the lines of interchangeable pods that
    siblings hold, ``is_older_held`` whether one of those is of an older revision.
    """

    entries: tuple[MapEntry, ...]
    is_own: bool
    held: int = 0
    is_older_held: bool = False


def lines(pod: Pod, view: View, profile: Profile) -> Lines | Reason:
    """The lines of the pod's map that it may take; or why there are none."""
    assert pod.map_text is not None
    if not view.namespace(pod.namespace).may_map(profile.maps_allow):
        return _refused(
            ReasonCode.MAP_NOT_ALLOWED,
            f"namespace {pod.namespace} may not use gpu-scheduling-map"
            f" (label it {well_known.MAPS_ALLOWED}=allowed)",
        )
    try:
        gpu_map = parse(pod.map_text)
    except MapError as error:
        return _refused(ReasonCode.MAP_INVALID, str(error))
    return _lines(pod, gpu_map, view)


def target(pod: Pod, entry: MapEntry, view: View) -> Target | Reason:
    """A line, resolved to a node; or why there is no such node, or no such share."""
    return _shares_problem(pod, entry) or _resolved(entry, view)


def wants(pod: Pod) -> tuple[ContainerGpus, ...]:
    """Whole GPUs per container, in order of declaration (init containers first)."""
    return tuple(
        ContainerGpus(container.devices.get(well_known.GPU, 0), container.role is Role.INIT)
        for container in pod.containers
    )


def cuda_mode(pod: Pod) -> CudaMode:
    """The pod's mode; an unknown one counts as ``auto`` (the webhook refuses it)."""
    return _CUDA_MODES.get(pod.annotations.get(well_known.CUDA_MODE, ""), CudaMode.AUTO)


def device_problem(pod: Pod, entry: MapEntry, node_info: NodeInfo) -> Reason | None:
    """Why the line's devices cannot be had on the node, or None."""
    node = node_info.node
    assert node is not None
    failed = failed_gpus(node_info).intersection(entry.devices)
    problem = broken(min(failed)) if failed else absence(node, entry.devices)
    if problem is not None:
        return problem
    if not _is_by_number(pod, node):
        return None  # the kubelet picks: nothing is held by number
    return cut(node, entry.devices) or _handed_out(pod, node_info) or _held(pod, entry, node_info)


def _handed_out(pod: Pod, node_info: NodeInfo) -> Reason | None:
    """Who else gives GPUs to pods here, so that it is not known which are free."""
    node = node_info.node
    assert node is not None
    if node_info.claims and not node.honours_numbers:
        return CLAIMED
    if not node.is_numbered and node_info.usage.holds_plugin_devices:
        return KUBELET_PICKS
    if not pod.gpu_requests and node_info.usage.holds_slices:
        return KUBELET_PICKS  # on which card an instance is cut is not known yet
    if node.is_numbered and node_info.usage.unknown:
        return Reason(
            code=ReasonCode.DEVICES_UNKNOWN, text="node(s) had GPUs held under unknown numbers"
        )
    return None


def literal_problem(pod: Pod, entry: MapEntry, node_info: NodeInfo) -> Reason | None:
    """Whether a container was told other devices, as a literal, than the map says by now.

    Only where the map's numbers reach the hardware: elsewhere a literal is the author's own.
    """
    assert node_info.node is not None
    mode = cuda_mode(pod)
    if mode is CudaMode.NONE or not _is_by_number(pod, node_info.node):
        return None
    requests = wants(pod)
    shares = device_shares(requests, entry.devices) if devices_needed(requests) else None
    for position, container in enumerate(pod.containers):
        expected = visible(entry.devices if shares is None else shares[position], mode)
        literal = container.cuda_literal
        if literal is not None and expected and literal != expected:
            return _refused(
                ReasonCode.MAP_CHANGED,
                f"MapChanged: container {container.name} was created with CUDA_VISIBLE_DEVICES"
                f"={literal[:40]} and gpu-scheduling-map now says {expected}; recreate the pod",
            )
    return None


def assignment(pod: Pod, entry: MapEntry, node_info: NodeInfo) -> Devices:
    """What the pod gets: by number where numbers mean something, else by count."""
    node = node_info.node
    assert node is not None
    by_number = _is_by_number(pod, node)
    counts = tuple(
        (node.unit(resource), count)
        for resource, count in sorted(pod.gpu_requests.items())
        if not (by_number and resource == well_known.GPU)
    )
    return Devices(entry.devices if by_number else (), counts)


def environment(
    pod: Pod, devices: Devices, entry: MapEntry | None = None
) -> tuple[str | None, tuple[str, ...]]:
    """The value of CUDA_VISIBLE_DEVICES, and one per requesting container if several.

    Where the kubelet picks, the map's numbers are told only to a pod that insists on them.
    """
    mode = cuda_mode(pod)
    insists = mode in (CudaMode.INDEX, CudaMode.LOCAL) and pod.requests.get(well_known.GPU, 0) > 0
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
    return frozenset({well_known.CUDA_VISIBLE_DEVICES} | shares)


def _is_by_number(pod: Pod, node: Node) -> bool:
    """Whether the map's numbers reach the hardware, past the device plugin or through ours."""
    return not pod.gpu_requests or (node.is_numbered and well_known.GPU in pod.gpu_requests)


def _lines(pod: Pod, gpu_map: GpuMap, view: View) -> Lines | Reason:
    index = pod.index(len(gpu_map.indexes))
    if index is IndexRule.UNKNOWN:
        return _refused(ReasonCode.INDEX_UNKNOWN, _unknown(pod))
    held = view.indexes_held(pod) if pod.owner else {}
    if index is IndexRule.ASSIGNED:
        entries = tuple(gpu_map.entries[i] for i in gpu_map.indexes if i not in held)
        is_older_held = any(other.revision != pod.revision for other in held.values())
        found = Lines(entries, False, len(gpu_map.indexes) - len(entries), is_older_held)
        return found if entries else _all_held(found)
    assert isinstance(index, int)
    if index not in gpu_map.entries:
        return _refused(
            ReasonCode.INDEX_NOT_IN_MAP, f"gpu-scheduling-map has no line for index {index}"
        )
    if index in held:
        name = held[index].name
        return _refused(
            ReasonCode.INDEX_HELD, f"index {index} is held by pod {name} until it is gone"
        )
    return Lines((gpu_map.entries[index],), True)


def _unknown(pod: Pod) -> str:
    if pod.owner is None:
        hint = "a bare pod's name must end in -<number>"
    else:
        hint = f"what numbers the pods of a {shown(pod.owner.word)} is no number on this one"
    return f"the pod's index for gpu-scheduling-map is unknown ({hint})"


def _all_held(lines: Lines) -> Reason:
    if lines.is_older_held:
        return _refused(
            ReasonCode.INDEX_HELD_BY_OLDER_REVISION,
            f"IndexHeldByOlderRevision: all {lines.held} indexes of gpu-scheduling-map are held and"
            " an older revision holds some; use maxSurge: 0",
        )
    return _refused(
        ReasonCode.NO_LINE_LEFT,
        f"all {lines.held} indexes of gpu-scheduling-map are held by its siblings",
    )


def _shares_problem(pod: Pod, entry: MapEntry) -> Reason | None:
    needed = devices_needed(wants(pod))
    if not needed or needed == len(entry.devices):
        return None
    return _refused(
        ReasonCode.SHARES_MISMATCH,
        f"the containers request {needed} GPUs and line {entry.index} of gpu-scheduling-map"
        f" gives {len(entry.devices)}",
    )


def _resolved(entry: MapEntry, view: View) -> Target | Reason:
    found = view.resolve(entry.node)
    if not found:
        return _refused(
            ReasonCode.MAP_NODE_UNKNOWN,
            f"no node is named {entry.node} or labelled gpu-node-name={entry.node}",
        )
    if len(found) > 1:
        return _refused(
            ReasonCode.MAP_NODE_AMBIGUOUS,
            f"{entry.node} of gpu-scheduling-map fits {len(found)} nodes:"
            f" {' and '.join(sorted(found)[:3])}",
        )
    return Target(next(iter(found)), entry)


def _held(pod: Pod, entry: MapEntry, node_info: NodeInfo) -> Reason | None:
    holders = node_info.usage.holders
    for number in entry.devices:
        for holding in holders.get(number, ()):
            if not holding.is_mapped or holding.sharing != pod.sharing:
                return Reason(
                    code=ReasonCode.DEVICE_HELD,
                    text=f"node(s) where GPU {number} is held by a pod that does not share it",
                )
    return None


def crowding(pod: Pod, entry: MapEntry, node_info: NodeInfo) -> Pod | None:
    """A sibling with another map, as during a rollout, that holds one of the line's devices.

    Siblings may share a device, but a line whose devices no such sibling holds is better. One that
    is being deleted is named before others: its device is free soon.
    """
    holders = node_info.usage.holders
    if not any(number in holders for number in entry.devices):
        return None
    wanted = frozenset(entry.devices)
    found = [
        other
        for other, holding in node_info.pods.values()
        if other.map_text != pod.map_text and not wanted.isdisjoint(holding.numbers)
    ]
    return min(found, key=lambda other: (not other.is_deleting, other.name), default=None)


def leaving(sibling: Pod, entry: MapEntry, node_info: NodeInfo) -> Reason:
    """Why a line is not taken from a sibling that is about to be gone."""
    _, holding = node_info.pods[sibling.uid]
    number = next(number for number in entry.devices if number in holding.numbers)
    return Reason(
        code=ReasonCode.DEVICE_HELD,
        text=f"node(s) where GPU {number} is held by pod {sibling.name} until it is gone",
    )


def _refused(code: ReasonCode, text: str) -> Reason:
    return Reason(code=code, text=text, resolvable=False)
