"""Selects the line of its map for a pod.

A pod with a known index has one line and waits for it. Interchangeable pods get the lowest
available line: its node exists and passes every filter, its devices are free, and no sibling with
the same map holds it. An unavailable line does not block the others::

    0=n0:0   n0 is cordoned      skipped; in the message if no other line is available
    1=n1:0   held by a sibling   not tried
    2=n2:0   available           chosen
"""

from __future__ import annotations

from typing import Final, TypeGuard

import msgspec

from scheduler.framework.budget import Budget
from scheduler.framework.plugin import (
    FITS,
    CheckNode,
    Choice,
    ChosenNode,
    Reasons,
    Refuse,
    RefusedNode,
)
from scheduler.framework.reason_codes import TOO_COMPLEX
from scheduler.framework.view import View
from scheduler.model import well_known
from scheduler.model.gpu.gpu_map import MapEntry
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason import Reason, is_resolvable, with_numbers
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.plugins.gpu import map_devices
from scheduler.plugins.gpu.codes import NOTHING_TO_READ
from scheduler.plugins.gpu.devices import assigned, environment_on
from scheduler.plugins.gpu.map_lines import NO_FREE_MAP_LINE, Lines
from scheduler.state.node_info import NodeInfo

NOT_IN_MAP = ReasonCode(
    name="NOT_IN_MAP",
    meaning="the map names another node for this pod",
    lifted_by=(
        RequeueCause.NODE,
        RequeueCause.POD,
    ),
    stage="GPUMap",
    next_step="no action for this node: check the node that the map names",
    words=(r"node\(s\) not named by gpu-scheduling-map",),
    condition=ConditionReason.WAITING_FOR_MAPPED_NODE,
)

NOT_NAMED: Final = Reason(
    code=NOT_IN_MAP, text="node(s) not named by gpu-scheduling-map", resolvable=False
)
#: Maximum number of lines in a reason, each with its rejection.
LINES_SHOWN: Final = 3

_RefusedLine = RefusedNode | Refuse


class NodesOfMap(msgspec.Struct, frozen=True):
    """The nodes of a pod's map, in the order of its lines (``framework.NamedNodes``)."""

    view: View
    pod: Pod
    lines: Lines

    @property
    def elsewhere(self) -> Reasons:
        """The reason of every node outside the map."""
        return (NOT_NAMED,)

    def choose(self, check: CheckNode, work: Budget) -> Choice | None:
        """The pod's own line, or the lowest available one; None if one line takes too many
        steps.
        """
        if self.lines.is_own:
            return self._try(self.lines.entries[0], check, work)
        return self._lowest(check, work)

    def _lowest(self, check: CheckNode, work: Budget) -> Choice:
        """A line that shares a device with another map is used only if no other line is
        available.
        """
        refusals: list[tuple[MapEntry, _RefusedLine]] = []
        crowded: ChosenNode | None = None
        for entry in self.lines.entries:
            tried = self._try(entry, check, work)
            if tried is None:
                return crowded or Refuse(_too_many(self.lines, work))
            if not isinstance(tried, ChosenNode):
                refusals.append((entry, tried))
                continue
            sibling = map_devices.crowding(self.pod, entry, tried.node_info)
            if sibling is None:
                return tried
            if sibling.is_deleting:
                refusals.append((entry, _leaving(sibling, tried, entry)))
            else:
                crowded = crowded or tried
        kinds = {(one.code, one.resource): one for _, each in refusals for one in _every(each)}
        helped = [one.node_name for _, one in refusals if _is_helped(one)]
        refused = _no_line(self.lines, refusals)
        return crowded or Refuse(refused, tuple(kinds.values()), tuple(dict.fromkeys(helped)))

    def _try(self, entry: MapEntry, check: CheckNode, work: Budget) -> Choice | None:
        """The result for one line; None if the budget is spent."""
        if not work.spend(1):
            return None
        found = map_devices.target(self.pod, entry, self.view)
        if isinstance(found, Reason):
            return Refuse(found)
        node_info = self.view.at(found.node_name)
        assert node_info is not None, f"{found.node_name} was resolved and does not exist"
        changed = map_devices.literal_problem(self.pod, entry, node_info)
        if changed is not None:
            return Refuse(changed)
        reasons = check(node_info)
        if reasons == FITS:
            reasons = self._device_reasons(entry, node_info) or check(node_info, entry)
        elif reasons is not None:
            reasons = self._with_devices(reasons, entry, node_info)
        if reasons is None:
            return None
        if reasons:
            return RefusedNode(found.node_name, reasons)
        return ChosenNode(node_info, entry)

    def _device_reasons(self, entry: MapEntry, node_info: NodeInfo) -> Reasons:
        """Why the pod cannot have the devices of a line."""
        problem = map_devices.device_problem(
            self.pod, entry, node_info, self.view.dra
        ) or self._missing_environment(entry, node_info)
        return FITS if problem is None else (problem,)

    def _with_devices(self, reasons: Reasons, entry: MapEntry, node_info: NodeInfo) -> Reasons:
        """The reasons; of DRA devices the one that the pod waits for in place of the number of
        free GPUs. Another GPU that becomes free does not help the pod, and a missing one never
        does.
        """
        others = tuple(one for one in reasons if one.resource != well_known.GPU)
        if others == reasons or node_info.dra_gpus is None:
            return reasons
        devices = self._device_reasons(entry, node_info)
        return others + devices if devices else reasons

    def _missing_environment(self, entry: MapEntry, node_info: NodeInfo) -> Reason | None:
        """A container reads its devices from an annotation that has no value on this node."""
        pod = self.pod
        if not pod.reads_devices:
            return None
        devices = assigned(pod, entry, node_info)
        value, _ = environment_on(pod, devices, entry, node_info)
        return NOTHING_TO_READ if value is None else None


def _leaving(sibling: Pod, tried: ChosenNode, entry: MapEntry) -> RefusedNode:
    """The line is not reassigned while the sibling that holds it is being deleted."""
    node = tried.node_info.node
    assert node is not None
    return RefusedNode(node.name, (map_devices.leaving(sibling, entry, tried.node_info),))


def _is_helped(refused: _RefusedLine) -> TypeGuard[RefusedNode]:
    """Whether the end of pods on the line's node could make the line available."""
    return isinstance(refused, RefusedNode) and is_resolvable(refused.reasons)


def _every(refused: _RefusedLine) -> Reasons:
    """All rejections of a line."""
    return refused.reasons if isinstance(refused, RefusedNode) else (refused.reason,)


def _no_line(lines: Lines, refusals: list[tuple[MapEntry, _RefusedLine]]) -> Reason:
    """The rejection of each line that no sibling holds, and the number of lines held by
    siblings.
    """
    parts = [_of_line(entry, refused) for entry, refused in refusals[:LINES_SHOWN]]
    if more := len(refusals) - LINES_SHOWN:
        parts += [f"{more} more lines are not available either"] if more > 0 else []
    if lines.held:
        older = " (an older revision holds some; use maxSurge: 0)" if lines.is_older_held else ""
        total = lines.held + len(lines.entries)
        parts.append(f"{lines.held} of {total} lines are held by its siblings{older}")
    text = f"no line of gpu-scheduling-map is available: {'; '.join(parts)}"
    return Reason(code=NO_FREE_MAP_LINE, text=text, resolvable=False)


def _too_many(lines: Lines, work: Budget) -> Reason:
    text = (
        f"TooComplex: to try the {len(lines.entries)} lines of gpu-scheduling-map that no sibling"
        f" holds takes more than {work.limit} steps, which one decision may take; name fewer labels"
        " and values, or fewer lines"
    )
    return Reason(code=TOO_COMPLEX, text=text, resolvable=False)


def _of_line(entry: MapEntry, refused: _RefusedLine) -> str:
    at = f"line {entry.index}"
    if isinstance(refused, RefusedNode):
        at += f" on node {refused.node_name}"
    return f"{at}: {' and '.join(with_numbers(one) for one in _every(refused))}"
