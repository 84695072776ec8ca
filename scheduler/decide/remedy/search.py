"""What would make a pending pod start now: edits, tried one after the other by the same decision.

A remedy is only what the decision itself confirms. The tries are bounded in number, and together in
steps; none has an effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from scheduler.decide.explain import Outcome, Refusal
from scheduler.decide.remedy import of_constraints, of_map, of_pods, of_requests
from scheduler.decide.remedy.edit import Edit, Trial
from scheduler.decide.schedule_one import place
from scheduler.decide.view import WhatIfView, beside_nominated
from scheduler.framework.budget import Budget
from scheduler.framework.pipeline import Pipeline
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster

TRIES_MAX: Final = 24
#: All tries together take at most so many times the steps of one decision.
DECISIONS_MAX: Final = 4
#: The remedies of one rejection.
SHOWN_MAX: Final = 6

Tries = Callable[[View, Pod, Sequence[Refusal]], Iterator[Trial]]

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
    cluster: Cluster, pod: Pod, pipeline: Pipeline, outcome: Outcome
) -> tuple[Remedy, ...]:
    """What makes a rejected pod start now, in the order of the codes; empty for a placed pod."""
    work = Budget(DECISIONS_MAX * pipeline.decision_steps_max)
    found: list[Remedy] = []
    for codes, trial in islice(_trials(cluster, pod, outcome), TRIES_MAX):
        if work.is_over or len(found) == SHOWN_MAX:
            break
        node_name = _starts_on(cluster, trial, pipeline, work)
        if node_name is not None:
            found.append(Remedy(codes=codes, edits=trial.edits, node=node_name))
    return tuple(found)


def _trials(
    cluster: Cluster, pod: Pod, outcome: Outcome
) -> Iterator[tuple[tuple[str, ...], Trial]]:
    """The trials for the codes in turn, so that each code has some within the limit."""
    codes_of: dict[Tries, list[str]] = {}
    for code in dict.fromkeys(one.code for one in outcome.refusals):
        for tries in TRIED.get(code, ()):
            codes_of.setdefault(tries, []).append(code)
    lines = [
        (tuple(codes), tries(cluster, pod, outcome.refusals)) for tries, codes in codes_of.items()
    ]
    seen: set[tuple[Edit, ...]] = set()
    while lines:
        left = []
        for codes, line in lines:
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
