"""The kind ``preemption``: pods of several priorities on small clusters that are soon full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from tests.differential.generate import core
from tests.differential.generate.draws import Draws
from tests.differential.generate.selectors import POD_LABELS, label_selector
from tests.differential.sequence import (
    CreatePod,
    DeleteObject,
    DeletePod,
    EndPod,
    NodeForm,
    PlacePod,
    Sequence,
    SetNode,
    SetObject,
    Step,
    Workload,
)

KIND: Final = "preemption"
BUDGETS: Final = "poddisruptionbudgets"
_BUDGET_NAMESPACES: Final = ("red", "red", "blue", "green")
_NODES: Final = (2, 3, 3, 4, 5)
_STEPS: Final = (22, 34)
_PRIORITIES: Final = ("", "p5", "p5", "p50", "p50", "p500", "low")


def sequence(seed: int) -> Sequence:
    """The sequence of a seed: ``core`` with small nodes and large pods."""
    base = core.drawn(KIND, seed, _NODES, _STEPS)
    draws = Draws(f"{KIND} priorities {seed}")
    objects = [_budget(draws, number) for number in range(draws.number(0, 3))]
    changes = Draws(f"{KIND} budgets {seed}")
    return msgspec.structs.replace(
        base,
        nodes=tuple(_small(draws, one) for one in base.nodes),
        objects=tuple(objects),
        workloads=tuple(_important(draws, one) for one in base.workloads),
        steps=tuple(_with_budgets(changes, [_kept(draws, one) for one in base.steps])),
    )


def _small(draws: Draws, form: NodeForm) -> NodeForm:
    offers = {**form.offers, "cpu": draws.one(("1", "1500m", "2", "3")), "pods": "110"}
    taints = form.taints[:1] if draws.chance(0.2) else ()
    return msgspec.structs.replace(form, offers=offers, taints=taints, cordoned=False)


def _important(draws: Draws, workload: Workload) -> Workload:
    requests = {**workload.requests, "cpu": draws.one(("100m", "200m", "400m", "700m", "1"))}
    spec = dict(list(workload.spec.items())[:1]) if draws.chance(0.5) else {}
    if "initContainers" in spec:
        spec = {}
    return msgspec.structs.replace(
        workload,
        requests=requests,
        spec=spec,
        ports=workload.ports if draws.chance(0.3) else (),
        priority=draws.one(_PRIORITIES),
    )


def _budget(draws: Draws, number: int) -> SetObject:
    status = {
        "disruptionsAllowed": draws.number(0, 2),
        "currentHealthy": 2,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    meta = {"name": f"budget{number}", "namespace": draws.one(_BUDGET_NAMESPACES)}
    spec = {"minAvailable": 1, "selector": label_selector(draws, POD_LABELS)}
    manifest = {"metadata": meta, "spec": spec, "status": status}
    return SetObject(BUDGETS, manifest)


def _with_budgets(draws: Draws, steps: Iterable[Step]) -> Iterator[Step]:
    """The steps; between them budgets are created, changed and deleted."""
    for step in steps:
        yield step
        if draws.chance(0.12):
            number = draws.number(0, 3)
            if draws.chance(0.3):
                key = f"{draws.one(_BUDGET_NAMESPACES)}/budget{number}"
                yield DeleteObject(BUDGETS, key)
            else:
                yield _budget(draws, number)


def _kept(draws: Draws, step: Step) -> Step:
    match step:
        case SetNode(form):
            return SetNode(_small(draws, form))
        case PlacePod(name, workload):
            return CreatePod("p" + name[1:], workload)
        case EndPod(name):
            return DeletePod(name)
    return step
