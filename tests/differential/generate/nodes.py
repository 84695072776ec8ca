"""Random nodes: few labels and values, so that pods share domains; small, so that they fill up."""

from __future__ import annotations

from typing import Final

import msgspec

from tests.differential.generate.draws import Draws
from tests.differential.sequence import NodeForm

#: Node labels with their values; nodes may lack each of them.
LABELS: Final = {
    "zone": ("z1", "z2", "z3"),
    "rack": ("r1", "r2", "r3", "r4"),
    "disk": ("ssd", "hdd"),
    "speed": ("3", "5", "05", "7", "fast"),
}
#: Taints with their values; a node has each of them once.
TAINTS: Final = (
    ("dedicated", "NoSchedule", ("red", "blue")),
    ("dedicated", "NoExecute", ("red",)),
    ("maintenance", "NoExecute", ("",)),
    ("spot", "PreferNoSchedule", ("", "yes")),
    ("spot", "NoSchedule", ("yes", "no")),
)
EXTENDED: Final = ("example.com/widget", "nvidia.com/gpu")


def node(draws: Draws, name: str) -> NodeForm:
    """A node of this name."""
    return NodeForm(
        name=name,
        labels=labels(draws, name),
        taints=taints(draws, draws.one((0, 0, 0, 0, 0, 1, 1, 2))),
        cordoned=draws.chance(0.05),
        offers=offers(draws),
    )


def labels(draws: Draws, name: str) -> dict[str, str]:
    """The labels of a node; rarely another host name than its own."""
    found = {key: draws.one(values) for key, values in LABELS.items() if draws.chance(0.92)}
    if draws.chance(0.05):
        found["kubernetes.io/hostname"] = f"host-of-{name}"
    return found


def taints(draws: Draws, count: int) -> tuple[str, ...]:
    """So many taints."""
    few = draws.some(TAINTS, count)
    return tuple(f"{key}={draws.one(values)}:{effect}" for key, effect, values in few)


def offers(draws: Draws) -> dict[str, str]:
    """The allocatable of a node."""
    found = {
        "cpu": draws.one(("1", "2", "4", "8")),
        "memory": draws.one(("1Gi", "2Gi", "4Gi")),
        "pods": draws.one(("3", "6", "110", "110", "110")),
    }
    for name in EXTENDED:
        if draws.chance(0.6):
            found[name] = draws.one(("0", "2", "4"))
    return found


def changed(draws: Draws, form: NodeForm) -> NodeForm:
    """The node with one part changed."""
    replace = msgspec.structs.replace
    match draws.number(0, 3):
        case 0:
            return replace(form, labels=labels(draws, form.name))
        case 1:
            return replace(form, taints=taints(draws, draws.number(0, 2)))
        case 2:
            return replace(form, cordoned=not form.cordoned)
    return replace(form, offers=offers(draws))
