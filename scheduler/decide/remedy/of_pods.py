"""The end of a pod of the same namespace, which holds what the pod needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from scheduler.decide.explain import Refusal
from scheduler.decide.remedy.edit import Edit, EditKind, Trial
from scheduler.decide.remedy.of_requests import by_node
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.quantity import format_value

NODES_MAX: Final = 4
#: The reasons that the end of any pod lifts which holds enough.
FREED: Final = frozenset(("INSUFFICIENT", "TOO_MANY_PODS"))


def without_own_pod(view: View, pod: Pod, refusals: Sequence[Refusal]) -> Iterator[Trial]:
    """On each of a few nodes, the smallest pod of the namespace whose end leaves enough."""
    nodes = [
        (sum(one.need - one.have for one in there), name, there)
        for name, there in by_node(refusals).items()
        if name and all(one.code in FREED and not one.is_final for one in there)
    ]
    tried = 0
    for _, name, there in sorted(nodes, key=lambda one: one[:2]):
        held = _smallest(view, pod, name, there)
        if held is None:
            continue
        what = ", ".join(
            f"{format_value(one.resource, held.requests[one.resource])} {one.resource}"
            for one in there
            if one.resource
        )
        text = f"delete pod {held.key}" + (f", which holds {what}" if what else "")
        edit = Edit(kind=EditKind.DELETE_POD, field=held.key, text=text)
        yield Trial((edit,), pod, ((held.uid, name),))
        tried += 1
        if tried == NODES_MAX:
            return


def _smallest(view: View, pod: Pod, name: str, there: Sequence[Refusal]) -> Pod | None:
    node_info = view.at(name)
    if node_info is None:
        return None
    enough = [
        held
        for held, _ in node_info.pods.values()
        if held.namespace == pod.namespace
        and not held.is_deleting
        and all(held.requests.get(one.resource, 0) >= one.need - one.have for one in there)
    ]
    first = there[0].resource
    return min(enough, key=lambda one: (one.requests.get(first, 0), one.name), default=None)
