"""The kind ``core``: every filter that looks at nodes and pods, without volumes and preemption.

A change here changes what a seed means, but not the recordings: they hold whole sequences.
"""

from __future__ import annotations

from typing import Final

from tests.differential.generate import nodes
from tests.differential.generate.draws import Draws
from tests.differential.generate.pods import NAMESPACES, uses_host_ports, workload
from tests.differential.generate.selectors import NAMESPACE_LABELS, POD_LABELS
from tests.differential.sequence import (
    CreatePod,
    DeleteNode,
    DeletePod,
    EndPod,
    LabelPod,
    NodeForm,
    PlacePod,
    Sequence,
    SetNamespace,
    SetNode,
    Step,
    Workload,
)

KIND: Final = "core"


_NODES: Final = (3, 4, 5, 5, 6, 6, 7, 8, 10, 14, 20)
_STEPS: Final = (24, 40)


def sequence(seed: int) -> Sequence:
    """The sequence of a seed."""
    return drawn(KIND, seed, _NODES, _STEPS)


def drawn(
    kind: str, seed: int, node_counts: tuple[int, ...], step_counts: tuple[int, int]
) -> Sequence:
    """A sequence with one of these numbers of nodes, and from so many to so many steps."""
    draws = Draws(f"{kind} {seed}")
    count = draws.one(node_counts)
    names = tuple(f"n{number}" for number in range(1, count + 1))
    first = {name: nodes.node(draws, name) for name in names}
    namespaces = {name: _namespace_labels(draws) for name in NAMESPACES}
    workloads = tuple(workload(draws, names) for _ in range(draws.number(3, 6)))
    steps = _Steps(draws, dict(first), workloads).take(draws.number(*step_counts))
    return Sequence(
        kind=kind,
        seed=seed,
        namespaces=namespaces,
        nodes=tuple(first.values()),
        workloads=workloads,
        steps=steps,
    )


def _namespace_labels(draws: Draws) -> dict[str, str]:
    return {key: draws.one(values) for key, values in NAMESPACE_LABELS.items() if draws.chance(0.7)}


class _Steps:
    """The steps, with the nodes and pods that can be there.

    Whether a pod is placed is not known here; a step about a pod that is not there does nothing.
    """

    def __init__(
        self, draws: Draws, known: dict[str, NodeForm], workloads: tuple[Workload, ...]
    ) -> None:
        self._draws = draws
        self._nodes = known
        self._workloads = len(workloads)
        # Two pods on a node with one host port: kube-scheduler forgets the port with the first of
        # them (difference D5).
        self._without_ports = [
            number for number, one in enumerate(workloads) if not uses_host_ports(one)
        ]
        self._pods: list[str] = []
        self._created = 0

    def take(self, count: int) -> tuple[Step, ...]:
        """So many steps."""
        return tuple(self._next() for _ in range(count))

    def _next(self) -> Step:
        kind = self._draws.number(0, 99)
        if kind >= 33 or len(self._pods) < 3:
            return self._create()
        if kind < 16:
            return self._change_pod(kind)
        if kind < 20:
            return SetNamespace(self._draws.one(NAMESPACES), _namespace_labels(self._draws))
        return self._change_node(kind)

    def _change_pod(self, kind: int) -> Step:
        if kind < 10:
            return self._delete()
        if kind < 11:
            return EndPod(self._draws.one(self._pods))
        if kind < 13 and self._without_ports:
            return self._place()
        return LabelPod(self._draws.one(self._pods), self._pod_labels())

    def _create(self) -> Step:
        self._created += 1
        name = f"p{self._created}"
        self._pods.append(name)
        return CreatePod(name, self._draws.number(0, self._workloads - 1))

    def _place(self) -> Step:
        self._created += 1
        name = f"q{self._created}"
        self._pods.append(name)
        node_name = self._draws.one((*self._nodes, "absent"))
        return PlacePod(name, self._draws.one(self._without_ports), node_name)

    def _delete(self) -> Step:
        name = self._draws.one(self._pods)
        graceful = self._draws.chance(0.4)
        if not graceful:
            self._pods.remove(name)
        return DeletePod(name, graceful)

    def _pod_labels(self) -> dict[str, str]:
        return {
            key: self._draws.one(values)
            for key, values in POD_LABELS.items()
            if self._draws.chance(0.8)
        }

    def _change_node(self, kind: int) -> Step:
        draws, names = self._draws, tuple(self._nodes)
        if kind < 22 and len(names) > 2:
            name = draws.one(names)
            del self._nodes[name]
            return DeleteNode(name)
        if kind < 24:
            form = nodes.node(draws, f"n{draws.number(1, len(names) + 2)}")
        else:
            form = nodes.changed(draws, self._nodes[draws.one(names)])
        self._nodes[form.name] = form
        return SetNode(form)
