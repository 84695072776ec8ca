"""Random label selectors, node selector terms and tolerations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.differential.generate.draws import Draws
from tests.differential.generate.nodes import LABELS

Json = dict[str, Any]

#: Labels of pods and of namespaces with their values.
POD_LABELS: Final = {"app": ("web", "db", "job"), "tier": ("x", "y"), "rev": ("1", "2")}
NAMESPACE_LABELS: Final = {"team": ("t1", "t2"), "env": ("prod", "test")}


def label_selector(draws: Draws, labels: Mapping[str, tuple[str, ...]]) -> Json:
    """A label selector; sometimes one that matches everything."""
    if draws.chance(0.08):
        return {}
    key = draws.one(tuple(labels))
    if draws.chance(0.6):
        return {"matchLabels": {key: draws.one(labels[key])}}
    expressions = [
        _expression(draws, one, labels[one])
        for one in draws.some(tuple(labels), draws.one((1, 1, 2)))
    ]
    return {"matchExpressions": expressions}


def _expression(draws: Draws, key: str, values: tuple[str, ...]) -> Json:
    operator = draws.one(("In", "In", "NotIn", "Exists", "DoesNotExist"))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    few = draws.some(values, draws.number(1, min(2, len(values))))
    return {"key": key, "operator": operator, "values": few}


def node_term(draws: Draws, names: tuple[str, ...]) -> Json:
    """A term of node affinity; rarely one about node names, or an empty one."""
    kind = draws.number(0, 15)
    if kind == 0:
        return {}
    if kind == 1:
        field = {"key": "metadata.name", "operator": "NotIn", "values": [draws.one(names)]}
        return {"matchFields": [field]}
    if kind == 2:
        field = {"key": "metadata.name", "operator": "In", "values": [draws.one(names)]}
        return {"matchFields": [field]}
    keys = draws.some(tuple(LABELS), draws.one((1, 1, 2)))
    return {"matchExpressions": [_node_expression(draws, key) for key in keys]}


def _node_expression(draws: Draws, key: str) -> Json:
    if key == "speed" and draws.chance(0.7):
        operator = draws.one(("Gt", "Lt"))
        return {"key": key, "operator": operator, "values": [draws.one(("0", "4", "5", "6"))]}
    return _expression(draws, key, LABELS[key])


def toleration(draws: Draws) -> Json:
    """A toleration of some of the nodes' taints."""
    kind = draws.number(0, 7)
    if kind == 0:
        return {"operator": "Exists"}
    if kind == 1:
        return {"operator": "Exists", "effect": draws.one(("NoSchedule", "NoExecute"))}
    if kind == 2:
        return {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    key = draws.one(("dedicated", "dedicated", "maintenance", "spot"))
    found: Json = {"key": key, "operator": "Exists"}
    if draws.chance(0.5):
        value = draws.one(("red", "blue", "yes", ""))
        found = {"key": key, "operator": "Equal", "value": value}
    if draws.chance(0.4):
        found["effect"] = draws.one(("NoSchedule", "NoExecute", "PreferNoSchedule"))
    return found
