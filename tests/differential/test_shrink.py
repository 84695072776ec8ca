"""A sequence that differs is cut to the steps, nodes and workloads that it needs."""

from __future__ import annotations

from tests.differential.generate.core import sequence
from tests.differential.live.shrink import shrunk
from tests.differential.sequence import CreatePod, Sequence


async def test_shrunk_sequence_has_only_what_differs() -> None:
    whole = sequence(1)
    pods = [step for step in whole.steps if isinstance(step, CreatePod)]
    needed, node = {pods[2], pods[7]}, whole.nodes[1]

    async def differs(one: Sequence) -> bool:
        return needed <= set(map(id_of, one.steps)) and node in one.nodes

    def id_of(step: object) -> object:
        return step if isinstance(step, CreatePod) else None

    smallest = await shrunk(whole, differs)
    assert [step.name for step in smallest.steps if isinstance(step, CreatePod)] == [
        pods[2].name,
        pods[7].name,
    ]
    assert len(smallest.steps) == 2
    assert smallest.nodes == (node,)
    used = [whole.workloads[step.workload] for step in (pods[2], pods[7])]
    assert [
        smallest.workloads[step.workload] for step in smallest.steps if isinstance(step, CreatePod)
    ] == used
    assert len(smallest.workloads) == len({step.workload for step in needed})
