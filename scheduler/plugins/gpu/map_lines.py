"""The lines of its map that a pod may use: its own, or all that no sibling holds."""

from __future__ import annotations

import msgspec

from scheduler.framework.view import View
from scheduler.model import well_known
from scheduler.model.gpu.gpu_map import GpuMap, MapEntry, MapError, parse, shown
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_index import IndexRule
from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause

MAP_INVALID = ReasonCode(
    name="MAP_INVALID",
    meaning="the map cannot be read",
    lifted_by=(RequeueCause.POD,),
    stage="GPUMap",
    next_step="correct the line of gpu-scheduling-map and recreate the pod",
    words=(r"gpu-scheduling-map line \d+: ",),
    condition=ConditionReason.INVALID_MAP,
)
MAP_NOT_ALLOWED = ReasonCode(
    name="MAP_NOT_ALLOWED",
    meaning="the namespace may not use maps",
    lifted_by=(RequeueCause.NAMESPACE,),
    stage="GPUMap",
    next_step=(
        "ask an administrator: kubectl label namespace NAMESPACE gpu-scheduler.io/maps=allowed"
    ),
    words=(r"namespace \S+ may not use gpu-scheduling-map",),
    condition=ConditionReason.MAPS_NOT_ALLOWED,
)
INDEX_UNKNOWN = ReasonCode(
    name="INDEX_UNKNOWN",
    meaning="the index of the pod is unknown",
    lifted_by=(RequeueCause.POD,),
    stage="GPUMap",
    next_step=(
        "name a pod without a controller NAME-<number>, or use a StatefulSet or an Indexed Job"
    ),
    words=(r"the pod's index for gpu-scheduling-map is unknown",),
    condition=ConditionReason.INDEX_UNKNOWN,
)
INDEX_NOT_IN_MAP = ReasonCode(
    name="INDEX_NOT_IN_MAP",
    meaning="the map has no line for the pod's index",
    lifted_by=(RequeueCause.POD,),
    stage="GPUMap",
    next_step="add a line for the index, or run fewer replicas",
    words=(r"gpu-scheduling-map has no line for index",),
    condition=ConditionReason.INDEX_NOT_IN_MAP,
)
INDEX_HELD = ReasonCode(
    name="INDEX_HELD",
    meaning="another live pod of the same owner holds the index",
    lifted_by=(RequeueCause.OWNER,),
    stage="GPUMap",
    next_step="wait until the pod with that index is deleted, or delete it",
    words=(r"index \d+ is held by pod",),
    condition=ConditionReason.INDEX_HELD,
)
INDEX_HELD_BY_OLDER_REVISION = ReasonCode(
    name="INDEX_HELD_BY_OLDER_REVISION",
    meaning="all indexes are held by pods of an older revision",
    lifted_by=(RequeueCause.OWNER,),
    stage="GPUMap",
    next_step=(
        "set maxSurge: 0 in the Deployment's rollingUpdate or in the Rollout's canary, so that old"
        " pods are deleted first"
    ),
    words=(r"IndexHeldByOlderRevision: ",),
    condition=ConditionReason.INDEX_HELD_BY_OLDER_REVISION,
    is_for_siblings=True,
)
NO_FREE_MAP_LINE = ReasonCode(
    name="NO_FREE_MAP_LINE",
    meaning="every line of the map is used by other pods of the owner, or cannot be placed",
    lifted_by=(RequeueCause.OWNER,),
    stage="GPUMap",
    next_step=(
        "resolve what the message says about a line (uncordon or repair its node, delete"
        " the pod that uses its devices), or add a line to the map"
    ),
    words=(
        r"all \d+ indexes of gpu-scheduling-map are held by its siblings",
        r"no line of gpu-scheduling-map is available",
    ),
    condition=ConditionReason.NO_FREE_MAP_LINE,
    is_for_siblings=True,
)


class Lines(msgspec.Struct, frozen=True):
    """The lines that a pod may use, by index: its own, or all that no sibling holds.

    ``is_own`` if its index is known. ``held`` counts the lines of interchangeable pods that
    siblings hold, ``is_older_held`` says whether a sibling of an older revision holds one.
    """

    entries: tuple[MapEntry, ...]
    is_own: bool
    held: int = 0
    is_older_held: bool = False


def lines(pod: Pod, view: View, maps_allow: str) -> Lines | Reason:
    """The lines of the pod's map that it may use, or the reason why there are none."""
    assert pod.map_text is not None
    if not view.namespace(pod.namespace).may_map(maps_allow):
        return refused(
            MAP_NOT_ALLOWED,
            f"namespace {pod.namespace} may not use gpu-scheduling-map"
            f" (label it {well_known.MAPS_ALLOWED}=allowed)",
        )
    try:
        gpu_map = parse(pod.map_text)
    except MapError as error:
        return refused(MAP_INVALID, str(error))
    return _lines(pod, gpu_map, view)


def _lines(pod: Pod, gpu_map: GpuMap, view: View) -> Lines | Reason:
    index = pod.index(len(gpu_map.indexes))
    if index is IndexRule.UNKNOWN:
        return refused(INDEX_UNKNOWN, _unknown(pod))
    held = view.indexes_held(pod) if pod.owner else {}
    if index is IndexRule.ASSIGNED:
        entries = tuple(gpu_map.entries[i] for i in gpu_map.indexes if i not in held)
        is_older_held = any(other.revision != pod.revision for other in held.values())
        found = Lines(entries, False, len(gpu_map.indexes) - len(entries), is_older_held)
        return found if entries else _all_held(found)
    assert isinstance(index, int)
    if index not in gpu_map.entries:
        return refused(INDEX_NOT_IN_MAP, f"gpu-scheduling-map has no line for index {index}")
    if index in held:
        name = held[index].name
        return refused(INDEX_HELD, f"index {index} is held by pod {name} until that pod is deleted")
    return Lines((gpu_map.entries[index],), True)


def _unknown(pod: Pod) -> str:
    if pod.owner is None:
        hint = "a bare pod's name must end in -<number>"
    else:
        hint = f"what numbers the pods of a {shown(pod.owner.word)} is no number on this one"
    return f"the pod's index for gpu-scheduling-map is unknown ({hint})"


def _all_held(lines: Lines) -> Reason:
    if lines.is_older_held:
        return refused(
            INDEX_HELD_BY_OLDER_REVISION,
            f"IndexHeldByOlderRevision: all {lines.held} indexes of gpu-scheduling-map are held and"
            " an older revision holds some; use maxSurge: 0",
        )
    return refused(
        NO_FREE_MAP_LINE,
        f"all {lines.held} indexes of gpu-scheduling-map are held by its siblings",
    )


def refused(code: ReasonCode, text: str) -> Reason:
    """A reason that the end of another pod does not resolve."""
    return Reason(code=code, text=text, resolvable=False)
