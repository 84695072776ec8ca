"""Victims whose end changes what affinity and spread count."""

from __future__ import annotations

from typing import Any

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Preemption
from tests.builders import cluster, node, pod
from tests.unit.plugins.preemption.scene import OWN, rejection, victims

HOST = "kubernetes.io/hostname"


def away_from(app: str) -> dict[str, Any]:
    """Required anti-affinity on the node."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def near(app: str) -> dict[str, Any]:
    """Required affinity on the node."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


N1 = node("n1", labels={HOST: "n1"})


def test_a_pod_that_the_preemptor_must_be_away_from_goes() -> None:
    state = cluster(
        N1,
        pod("web", node="n1", labels={"app": "web"}),
        pod("other", node="n1", labels={"app": "other"}),
    )
    boss = pod("boss", priority=9, spec={"affinity": away_from("web")})

    assert victims(state, boss) == ["web"]


def test_a_pod_that_must_be_away_from_the_preemptor_goes() -> None:
    shy = pod("shy", node="n1", spec={"affinity": away_from("boss")})
    state = cluster(N1, shy, pod("other", node="n1"))

    assert victims(state, pod("boss", priority=9, labels={"app": "boss"})) == ["shy"]


def test_missing_affinity_is_not_lifted_by_the_end_of_pods() -> None:
    state = cluster(N1, pod("other", node="n1"))
    boss = pod("boss", priority=9, spec={"affinity": near("web")})

    rejection(state, boss)


def test_pods_of_a_crowded_domain_go_for_a_spread_constraint() -> None:
    spread = {
        "topologyKey": HOST,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    full = node("n2", labels={HOST: "n2"}, pods=0)
    state = cluster(N1, full, pod("a", node="n1", labels={"app": "web"}))
    boss = pod(
        "boss",
        priority=9,
        labels={"app": "web"},
        spec={"topologySpreadConstraints": [spread]},
    )

    found = schedule_one(state, boss, OWN)

    assert isinstance(found, Preemption)
    assert [one.name for one in found.victims] == ["a"]
