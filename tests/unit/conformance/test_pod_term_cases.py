"""Inter-pod affinity and topology spread, as kube-scheduler's filters answer."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from tests.builders import cluster, namespace, node, pod, settle
from tests.unit.conformance.feasible import feasible, rejections

Json = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def zone(name: str, **more: Any) -> Node:
    """A node whose zone is the first letter of its name; ``x`` has no zone."""
    return node(name, labels={} if name[0] == "x" else {"zone": name[0]}, **more)


def selector(**labels: str) -> Json:
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": "zone"}


def near(*terms: Json) -> Json:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def apart(*terms: Json) -> Json:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def evenly(**more: Any) -> Json:
    hard = {**selector(app="web"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**hard, **more}]}


def web(name: str, at: str = "", **more: Any) -> Pod:
    return pod(name, labels={"app": "web"}, node=at, **more)


def test_case_34_the_first_pod_of_a_group_opens_a_zone_for_the_others() -> None:
    together = near(selector(app="web"))
    state = cluster(zone("a1"), zone("a2"), zone("b1"), zone("x1"))

    assert feasible(state, web("first", spec=together)) == {"a1", "a2", "b1"}
    first = settle(state, web("first", spec=together))

    same_zone = {name for name in ("a1", "a2", "b1") if name[0] == first.node_name[0]}
    assert feasible(state, web("second", spec=together)) == same_zone


def test_case_35_one_pod_has_to_match_all_affinity_terms() -> None:
    both = near(selector(app="web"), selector(tier="front"))
    apart_pods = (web("one", "a1"), pod("two", labels={"tier": "front"}, node="a1"))
    state = cluster(zone("a1"), *apart_pods)

    assert rejections(state, pod("p", spec=both)) == {
        "a1": "node(s) didn't match pod affinity rules"
    }
    state.upsert_pod(pod("match", labels={"app": "web", "tier": "front"}, node="a1"))
    assert feasible(state, pod("p", spec=both)) == {"a1"}


def test_case_36_anti_affinity_of_a_placed_pod_spans_namespaces() -> None:
    of_guests = {**selector(app="web"), "namespaceSelector": {"matchLabels": {"guest": "yes"}}}
    guard = pod("guard", node="a1", spec=apart(of_guests))
    state = cluster(
        namespace("other", labels={"guest": "yes"}), zone("a1"), zone("a2"), zone("b1"), guard
    )

    assert feasible(state, web("p", namespace="other")) == {"b1"}
    assert set(rejections(state, web("p", namespace="other")).values()) == {
        "node(s) didn't satisfy existing pods anti-affinity rules"
    }
    assert feasible(state, web("p")) == {"a1", "a2", "b1"}, "the namespace is not selected"
    assert feasible(state, pod("p", namespace="other")) == {"a1", "a2", "b1"}


def test_case_37_anti_affinity_passes_a_node_without_the_key() -> None:
    state = cluster(zone("a1"), zone("x1"), web("w1", "a1"), web("w2", "x1"))

    assert feasible(state, pod("p", spec=apart(selector(app="web")))) == {"x1"}


def test_case_38_a_pod_goes_to_a_zone_with_the_fewest() -> None:
    state = cluster(
        *(zone(name) for name in ("a1", "b1", "c1")),
        *(web(f"a-{number}", "a1") for number in range(2)),
        web("b-0", "b1"),
        web("c-0", "c1"),
    )

    assert feasible(state, web("p", spec=evenly())) == {"b1", "c1"}


@pytest.mark.parametrize(
    ("policy", "nodes"),
    [
        pytest.param("Honor", {"b1", "c1"}, id="honor"),
        pytest.param("Ignore", set[str](), id="ignore"),
    ],
)
def test_case_38_a_zone_of_untolerated_nodes_is_not_counted(policy: str, nodes: set[str]) -> None:
    state = cluster(
        zone("b1"),
        zone("c1"),
        zone("d1", taints=["gpu:NoSchedule"]),
        web("b-0", "b1"),
        web("c-0", "c1"),
    )

    assert feasible(state, web("p", spec=evenly(nodeTaintsPolicy=policy))) == nodes


def test_case_39_too_few_domains_make_the_smallest_count_zero() -> None:
    state, three = cluster(zone("a1"), zone("b1")), evenly(minDomains=3)
    for number in range(2):
        settle(state, web(f"w{number}", spec=three))

    assert sorted(state.assumed) == ["team-w0", "team-w1"]
    assert feasible(state, web("p", spec=three)) == set()
    assert feasible(state, web("p", spec=evenly(minDomains=2))) == {"a1", "b1"}


def test_case_40_terminating_pods_count_for_anti_affinity_only() -> None:
    state = cluster(zone("a1"), zone("b1"), web("going", "a1", deleting=True), web("w", "b1"))

    assert feasible(state, web("p", spec=evenly())) == {"a1"}
    assert feasible(state, pod("p", spec=apart(selector(app="web")))) == set()
