"""The end of a pod of the same namespace, which holds what the pod needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from scheduler.decide.explain import Refusal
from scheduler.decide.remedy.edit import Edit, EditKind, Trial
from scheduler.decide.remedy.rejected import RejectedPod
from scheduler.model.pods.pod import Pod
from scheduler.model.quantity import format_value
from scheduler.state.node_info import NodeInfo

NODES_MAX: Final = 4
#: Pods that are looked at in one part.
PART: Final = 2_000
#: The reasons that the end of any pod lifts which holds enough.
FREED: Final = frozenset(("INSUFFICIENT", "TOO_MANY_PODS"))


def without_own_pod(rejected: RejectedPod) -> Iterator[Trial | int]:
    """On each of a few nodes, the smallest pod of the namespace whose end leaves enough.

    The pods of a node are one part, and one step each; a number of steps is a pause.
    """
    nodes = [
        (sum(one.need - one.have for one in there), name, there)
        for name, there in rejected.nodes.items()
        if name and all(one.code in FREED and not one.is_final for one in there)
    ]
    tried = steps = 0
    for at, (_, name, there) in enumerate(sorted(nodes, key=lambda one: one[:2])):
        node_info = rejected.view.at(name)
        if node_info is None:
            continue
        if rejected.work.is_spent:
            rejected.work.leave_out(len(nodes) - at)
            return
        steps += rejected.work.part(len(node_info.pods))
        held = _smallest(rejected.pod, node_info, there)
        if held is not None:
            yield _trial(rejected.pod, held, name, there)
            tried += 1
            if tried == NODES_MAX:
                return
        if steps >= PART:
            yield steps
            steps = 0


def _trial(pod: Pod, held: Pod, node_name: str, there: Sequence[Refusal]) -> Trial:
    what = ", ".join(
        f"{format_value(one.resource, held.requests[one.resource])} {one.resource}"
        for one in there
        if one.resource
    )
    text = f"delete pod {held.key}" + (f", which holds {what}" if what else "")
    edit = Edit(kind=EditKind.DELETE_POD, field=held.key, text=text)
    return Trial((edit,), pod, ((held.uid, node_name),))


def _smallest(pod: Pod, node_info: NodeInfo, there: Sequence[Refusal]) -> Pod | None:
    enough = [
        held
        for held, _ in node_info.pods.values()
        if held.namespace == pod.namespace
        and not held.is_deleting
        and all(held.requests.get(one.resource, 0) >= one.need - one.have for one in there)
    ]
    first = there[0].resource
    return min(enough, key=lambda one: (one.requests.get(first, 0), one.name), default=None)
