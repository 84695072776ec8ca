"""Pods with affinity and spread terms, and the nodes and namespaces that these terms read."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from scheduler.model.node import Node
from tests.builders import node

Json = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WORDS = ("x", "y")

names = st.sampled_from([f"n{number}" for number in range(5)])
labels = st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from(WORDS), max_size=2)
selectors = st.one_of(
    st.just({}),
    labels.map(lambda found: {"matchLabels": found}),
    st.builds(
        lambda operator, word: {
            "matchExpressions": [{"key": "app", "operator": operator, "values": [word]}]
        },
        st.sampled_from(("In", "NotIn")),
        st.sampled_from(WORDS),
    ),
)
ZONE = "topology.kubernetes.io/zone"
keys = st.sampled_from((ZONE, "kubernetes.io/hostname"))


@st.composite
def term(draw: st.DrawFn) -> Json:
    found: Json = {"topologyKey": draw(keys), "labelSelector": draw(selectors)}
    if draw(st.booleans()):
        found["namespaces"] = draw(st.lists(st.sampled_from(("team", "other")), unique=True))
    if draw(st.integers(0, 3)) == 0:
        found["namespaceSelector"] = draw(selectors)
    return found


@st.composite
def constraint(draw: st.DrawFn) -> Json:
    found: Json = {
        "topologyKey": draw(keys),
        "maxSkew": draw(st.integers(1, 2)),
        "whenUnsatisfiable": draw(st.sampled_from(("DoNotSchedule", "ScheduleAnyway"))),
        "labelSelector": draw(selectors),
    }
    if found["whenUnsatisfiable"] == "DoNotSchedule" and draw(st.booleans()):
        found["minDomains"] = draw(st.integers(1, 3))
    if draw(st.booleans()):
        found["nodeAffinityPolicy"] = draw(st.sampled_from(("Honor", "Ignore")))
        found["nodeTaintsPolicy"] = draw(st.sampled_from(("Honor", "Ignore")))
    if draw(st.integers(0, 3)) == 0:
        found["matchLabelKeys"] = ["tier"]
    return found


@st.composite
def spec(draw: st.DrawFn) -> Json:
    found: Json = {"affinity": {}}
    for kind in ("podAffinity", "podAntiAffinity"):
        if terms := draw(st.lists(term(), max_size=2)):
            found["affinity"][kind] = {REQUIRED: terms}
        if preferred := draw(st.lists(st.tuples(st.integers(1, 100), term()), max_size=2)):
            found["affinity"].setdefault(kind, {})[PREFERRED] = [
                {"weight": weight, "podAffinityTerm": one} for weight, one in preferred
            ]
    if constraints := draw(st.just([]) | st.lists(constraint(), max_size=3)):
        found["topologySpreadConstraints"] = constraints
    if draw(st.integers(0, 3)) == 0:
        found["nodeSelector"] = {ZONE: draw(st.sampled_from(WORDS))}
    return found


@st.composite
def machine(draw: st.DrawFn, number: int) -> Node:
    name = f"n{number}"
    found = {"kubernetes.io/hostname": name} if draw(st.integers(0, 4)) else {}
    if draw(st.integers(0, 4)):
        found[ZONE] = draw(st.sampled_from(WORDS))
    taints = draw(st.sampled_from(([], [], ["a:NoSchedule"])))
    return node(name, labels=found, taints=taints, pods=50)
