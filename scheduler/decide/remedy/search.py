"""What would make a pending pod start now: edits, tried one after the other by the same decision.

A remedy is only what the decision itself confirms. The tries are bounded in number, and in steps
by the budget of the search; none has an effect. Each try is one part: the state may change between
two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from scheduler.decide.remedy import of_constraints, of_map, of_pods, of_requests
from scheduler.decide.remedy.edit import Edit, Trial
from scheduler.decide.remedy.rejected import RejectedPod
from scheduler.decide.schedule_one import place
from scheduler.decide.view import WhatIfView, beside_nominated
from scheduler.framework.budget import Budget
from scheduler.framework.pipeline import Pipeline
from scheduler.framework.view import View
from scheduler.state.cache.cluster import Cluster
from scheduler.state.parts import Parts

TRIES_MAX: Final = 24
#: The remedies of one rejection.
SHOWN_MAX: Final = 6

#: The edits to try; a number instead is a pause after so many steps.
Tries = Callable[[RejectedPod], Iterator[Trial | int] | Iterator[Trial]]

_MAPPED: Final = dict.fromkeys(
    (
        *("KUBELET_ASSIGNS_DEVICES", "DEVICE_HELD", "DEVICE_FAILED", "DEVICE_NOT_FOUND"),
        *("DEVICE_INDEX_UNKNOWN", "MAP_WITHOUT_CLAIM", "NOT_IN_MAP", "MAP_INVALID"),
        *("MAP_NOT_ALLOWED", "MAP_NODE_UNKNOWN", "MAP_NODE_AMBIGUOUS", "MAP_CHANGED"),
        *("INDEX_UNKNOWN", "INDEX_NOT_IN_MAP", "INDEX_HELD", "INDEX_HELD_BY_OLDER_REVISION"),
        *("NO_FREE_MAP_LINE", "MAP_REQUEST_MISMATCH", "MAP_AND_VOLUME", "NOT_MUTATED"),
        *("MAP_CLAIM_MISMATCH", "NO_DEVICE_FOR_ENV"),
    ),
    (of_map.without_map,),
)
#: What is tried for each code. The others are about other objects: their next step is a text.
TRIED: Final[dict[str, tuple[Tries, ...]]] = {
    "INSUFFICIENT": (of_requests.less, of_pods.without_own_pod),
    "TOO_MANY_PODS": (of_pods.without_own_pod,),
    "TOO_MANY_IN_ONE_CONTAINER": (of_requests.fewer_in_one_container,),
    "GPU_RESOURCE_IS_MIG": (of_requests.fewer_in_one_container,),
    "INSTANCES_DO_NOT_FIT_TOGETHER": (of_requests.fewer_instances,),
    "TAINT": (of_constraints.tolerate,),
    "NODE_UNSCHEDULABLE": (of_constraints.uncordon,),
    "AFFINITY": (of_constraints.select_less,),
    "GPU_MEMORY_TOO_SMALL": (of_constraints.less_memory,),
    "GPU_MEMORY_UNKNOWN": (of_constraints.less_memory,),
    "PORTS": (of_constraints.no_ports,),
    "POD_AFFINITY": (of_constraints.without_affinity,),
    "POD_ANTI_AFFINITY": (of_constraints.without_anti_affinity,),
    "EXISTING_ANTI_AFFINITY": (of_constraints.without_label,),
    "TOPOLOGY_SPREAD": (of_constraints.spread_softly,),
    "TOPOLOGY_LABEL": (of_constraints.spread_softly,),
    "UNSUPPORTED": (of_constraints.without_fields,),
    **_MAPPED,
}


class Remedy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Edits after which the pod starts now; ``codes`` are the reasons that they lift."""

    codes: tuple[str, ...]
    edits: tuple[Edit, ...]
    node: str

    @property
    def text(self) -> str:
        """The edits in words."""
        return " and ".join(one.text for one in self.edits)


def remedies(
    cluster: Cluster, rejected: RejectedPod, pipeline: Pipeline
) -> Parts[tuple[Remedy, ...]]:
    """What makes a rejected pod start now, in the order of the codes."""
    work, tried = rejected.work, 0
    found: list[Remedy] = []
    for one in _trials(rejected):
        if isinstance(one, int):
            yield one
            continue
        codes, trial = one
        tried += 1
        if work.is_spent:
            work.leave_out(1)
        else:
            own = Budget(min(pipeline.decision_steps_max, work.left))
            node_name = _starts_on(cluster, trial, pipeline, own)
            if node_name is not None:
                found.append(Remedy(codes=codes, edits=trial.edits, node=node_name))
            is_cut = own.is_over and own.limit < pipeline.decision_steps_max
            yield work.part(own.spent, is_done=not is_cut)
        if tried == TRIES_MAX or len(found) == SHOWN_MAX:
            break
    return tuple(found)


def _trials(rejected: RejectedPod) -> Iterator[tuple[tuple[str, ...], Trial] | int]:
    """The trials for the codes in turn, so that each code has some within the limit."""
    codes_of: dict[Tries, list[str]] = {}
    for code in dict.fromkeys(one.code for one in rejected.refusals):
        for tries in TRIED.get(code, ()):
            codes_of.setdefault(tries, []).append(code)
    lines = [(tuple(codes), tries(rejected)) for tries, codes in codes_of.items()]
    seen: set[tuple[Edit, ...]] = set()
    while lines:
        left = []
        for codes, line in lines:
            trial = next(line, None)
            while isinstance(trial, int):
                yield trial
                trial = next(line, None)
            if trial is None:
                continue
            left.append((codes, line))
            if trial.edits not in seen:
                seen.add(trial.edits)
                yield codes, trial
        lines = left


def _starts_on(cluster: Cluster, trial: Trial, pipeline: Pipeline, work: Budget) -> str | None:
    """The node of the pod after the edits, or None if it still waits."""
    view: View = cluster
    if trial.deleted:
        beside = beside_nominated(cluster, trial.pod)
        freed = beside if isinstance(beside, WhatIfView) else WhatIfView(cluster)
        for uid, node_name in trial.deleted:
            freed.remove(uid, node_name)
        view = freed
    placement = place(view, trial.pod, pipeline, work)
    return placement.node_name if placement is not None else None
