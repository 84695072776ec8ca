"""Which line of its map a pod gets.

A pod whose number is given has one line and waits for that. Interchangeable pods take the lowest
line that can be had: its node is there and passes every filter, its devices are free, and no
sibling with the same map holds it. So a line that cannot be had keeps no pod from another one::

    0=n0:0   n0 is cordoned      passed over; named if no other line can be had
    1=n1:0   held by a sibling   not tried
    2=n2:0   can be had          taken
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.decide import gpu_map, webhook_mutation
from scheduler.decide.budget import Budget
from scheduler.decide.decision import Placement
from scheduler.decide.filters import first_rejection
from scheduler.decide.filters.devices import NOTHING_TO_READ
from scheduler.decide.mig import instance_plan
from scheduler.decide.placement_notes import map_notes, soft_notes
from scheduler.decide.view import Profile, View
from scheduler.model.gpu_map import MapEntry
from scheduler.model.pod import Pod
from scheduler.model.reason import Reason, ReasonCode, with_numbers
from scheduler.state.node_info import NodeInfo

#: So many lines are named in a reason, with what stands against each.
LINES_SHOWN: Final = 3


class RefusedLine(msgspec.Struct, frozen=True, kw_only=True):
    """No line: ``general`` says why, or ``reasons`` of the one node that could have been.

    ``behind`` are what stands against single lines, each kind once, where ``general`` sums it up.
    ``is_the_pods`` where the line could be had and the pod itself stands against it.
    """

    general: Reason | None = None
    node_name: str = ""
    reasons: tuple[Reason, ...] = ()
    behind: tuple[Reason, ...] = ()
    is_the_pods: bool = False

    @property
    def every(self) -> tuple[Reason, ...]:
        """All that stands against it; there is always something."""
        return self.reasons or ((self.general,) if self.general else ())


Tried = Placement | RefusedLine


def choose(view: View, pod: Pod, profile: Profile, work: Budget) -> Tried | None:
    """The pod's placement by its map, or why not; None where one line takes too many steps."""
    found = gpu_map.lines(pod, view, profile)
    if isinstance(found, Reason):
        return RefusedLine(general=found) if work.spend(pod.label_steps + pod.node_steps) else None
    attempt = _Attempt(view, pod, profile, work)
    return attempt.line(found.entries[0]) if found.is_own else _lowest(attempt, found, work)


def _lowest(attempt: _Attempt, lines: gpu_map.Lines, work: Budget) -> Tried:
    """The lowest line that can be had; one that shares a device with another map only at last."""
    refusals: list[tuple[MapEntry, RefusedLine]] = []
    crowded: Placement | None = None
    for entry in lines.entries:
        tried = attempt.line(entry)
        if tried is None:
            return crowded or RefusedLine(general=_too_many(lines, work))
        if isinstance(tried, Placement):
            sibling, still = attempt.crowding(tried, entry)
            if sibling is None:
                return tried
            if still is not None:
                refusals.append((entry, still))
            else:
                crowded = crowded or tried
        elif tried.is_the_pods:
            return tried
        else:
            refusals.append((entry, tried))
    kinds = {(one.code, one.resource): one for _, each in refusals for one in each.every}
    none = RefusedLine(general=_no_line(lines, refusals), behind=tuple(kinds.values()))
    return crowded or none


class _Attempt:
    """Tries lines for one pod; a node that several lines name is compared with the pod once."""

    def __init__(self, view: View, pod: Pod, profile: Profile, work: Budget) -> None:
        self._view = view
        self._pod = pod
        self._profile = profile
        self._work = work
        self._asked: dict[str, tuple[Reason, ...]] = {}

    def line(self, entry: MapEntry) -> Tried | None:
        """What comes of one line; None where no steps are left to find out."""
        if not self._work.spend(1):
            return None
        found = gpu_map.target(self._pod, entry, self._view)
        if isinstance(found, Reason):
            return RefusedLine(general=found)
        place = self._view.at(found.node_name)
        assert place is not None, f"{found.node_name} was resolved and does not exist"
        changed = gpu_map.literal_problem(self._pod, entry, place)
        if changed is not None:
            return RefusedLine(general=changed)
        reasons = self._rejection(found.node_name, place)
        return None if reasons is None else self._at(found, place, reasons)

    def _at(self, found: gpu_map.Target, place: NodeInfo, reasons: tuple[Reason, ...]) -> Tried:
        pod = self._pod
        if not reasons and (problem := gpu_map.device_problem(pod, found.entry, place)) is not None:
            reasons = (problem,)
        if reasons:
            return RefusedLine(node_name=found.node_name, reasons=reasons)
        placement = _placement(pod, found, place)
        if isinstance(placement, Reason):
            return RefusedLine(node_name=found.node_name, reasons=(placement,))
        if webhook_mutation.is_unmutated(
            pod, placement.cuda_visible_devices, self._profile, self._view
        ):
            return RefusedLine(general=webhook_mutation.reason(pod), is_the_pods=True)
        return placement

    def crowding(
        self, placement: Placement, entry: MapEntry
    ) -> tuple[Pod | None, RefusedLine | None]:
        """A sibling with another map that holds a device of the line; a no while it ends."""
        node_info = self._view.at(placement.node_name)
        assert node_info is not None, f"{placement.node_name} was chosen and does not exist"
        sibling = gpu_map.crowding(self._pod, entry, node_info)
        if sibling is None or not sibling.is_deleting:
            return sibling, None
        reasons = (gpu_map.leaving(sibling, entry, node_info),)
        return sibling, RefusedLine(node_name=placement.node_name, reasons=reasons)

    def _rejection(self, node_name: str, place: NodeInfo) -> tuple[Reason, ...] | None:
        if node_name not in self._asked:
            if not self._work.spend(self._pod.label_steps + self._pod.node_steps):
                return None
            self._asked[node_name] = first_rejection(self._pod, place)
        return self._asked[node_name]


def _placement(pod: Pod, found: gpu_map.Target, node_info: NodeInfo) -> Placement | Reason:
    devices = instance_plan.positioned(
        pod, node_info, gpu_map.assignment(pod, found.entry, node_info)
    )
    value, shares = gpu_map.environment(pod, devices, found.entry)
    if pod.reads_devices and value is None:
        return NOTHING_TO_READ
    placement = Placement(
        pod=pod,
        node_name=found.node_name,
        devices=devices,
        index=found.entry.index,
        cuda_visible_devices=value,
        shares=shares,
        notes=map_notes(pod, devices, value, node_info) + soft_notes(pod),
    )
    return instance_plan.carved(placement, node_info)


def _no_line(lines: gpu_map.Lines, refusals: list[tuple[MapEntry, RefusedLine]]) -> Reason:
    """Why each line that no sibling holds cannot be had, and how many siblings hold."""
    parts = [_of_line(entry, refused) for entry, refused in refusals[:LINES_SHOWN]]
    if more := len(refusals) - LINES_SHOWN:
        parts += [f"{more} more lines cannot be had either"] if more > 0 else []
    if lines.held:
        older = " (an older revision holds some; use maxSurge: 0)" if lines.is_older_held else ""
        total = lines.held + len(lines.entries)
        parts.append(f"{lines.held} of {total} lines are held by its siblings{older}")
    text = f"no line of gpu-scheduling-map can be had: {'; '.join(parts)}"
    return Reason(code=ReasonCode.NO_LINE_LEFT, text=text, resolvable=False)


def _too_many(lines: gpu_map.Lines, work: Budget) -> Reason:
    text = (
        f"TooComplex: to try the {len(lines.entries)} lines of gpu-scheduling-map that no sibling"
        f" holds takes more than {work.limit} steps, which one decision may take; name fewer labels"
        " and values, or fewer lines"
    )
    return Reason(code=ReasonCode.TOO_COMPLEX, text=text, resolvable=False)


def _of_line(entry: MapEntry, refused: RefusedLine) -> str:
    at = f"line {entry.index}"
    if refused.node_name:
        at += f" on node {refused.node_name}"
    return f"{at}: {' and '.join(with_numbers(one) for one in refused.every)}"
