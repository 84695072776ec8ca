"""Pod affinity and topology spread: placements one after another, and what wakes a pod again."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from tests.builders import namespace, node, pod
from tests.scheduler_world import SchedulerWorld

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Json = dict[str, Any]


def zone(name: str, value: str, **more: Any) -> Node:
    return node(name, labels={"zone": value, "kubernetes.io/hostname": name}, **more)


def term(app: str, key: str = "zone", **more: Any) -> Json:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def near(*terms: Json) -> Json:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def apart(*terms: Json) -> Json:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def evenly(app: str, key: str = "zone", skew: int = 1) -> Json:
    constraint = {**term(app, key), "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [constraint]}


def app(name: str, label: str, spec: Json | None = None, **more: Any) -> Pod:
    return pod(name, labels={"app": label}, spec=spec or {}, **more)


class World(SchedulerWorld):
    """Delivers objects, and decides every pod that is due."""

    def happens(self, *events: ev.Event) -> None:
        for event in events:
            self.deliver(event)
        self.now += 20
        self.decide_due()

    def at(self) -> dict[str, str]:
        """Where each placed pod is."""
        return {one.name: one.node_name for one in self.cluster.pods.values() if one.node_name}


@pytest.fixture
def world() -> World:
    world = World()
    nodes = (zone("a1", "a"), zone("a2", "a"), zone("b1", "b"))
    world.happens(*map(ev.NodeUpdated, nodes))
    return world


def test_pods_that_exclude_each_other_take_one_node_each(world: World) -> None:
    apart_by_host = apart(term("web", "kubernetes.io/hostname"))
    for number in range(4):
        world.happens(ev.PodUpdated(app(f"web-{number}", "web", apart_by_host)))

    assert sorted(world.at().values()) == ["a1", "a2", "b1"]
    assert len(world.queue) == 1


def test_first_pod_of_a_group_goes_anywhere_and_the_others_follow(world: World) -> None:
    for number in range(3):
        world.happens(ev.PodUpdated(app(f"job-{number}", "job", near(term("job")))))

    assert len({name[0] for name in world.at().values()}) == 1


def test_pod_is_woken_by_the_placement_of_the_pod_that_it_needs(world: World) -> None:
    world.happens(ev.PodUpdated(app("client", "client", near(term("server")))))
    assert world.at() == {}

    world.happens(ev.PodUpdated(app("server", "server", {"nodeSelector": {"zone": "b"}})))

    assert world.at() == {"server": "b1", "client": "b1"}


def test_pod_is_woken_by_the_end_of_the_pod_that_excludes_it(world: World) -> None:
    everywhere = term("web", "everywhere")
    for name in ("a1", "a2", "b1"):
        world.deliver(ev.NodeUpdated(node(name, labels={"everywhere": "yes"})))
    world.deliver(ev.PodUpdated(app("guard", "guard", apart(everywhere), node="a1")))
    world.happens(ev.PodUpdated(app("web", "web")))
    assert world.at() == {"guard": "a1"}

    world.happens(ev.PodDeleted("team-guard"))

    assert list(world.at()) == ["web"]


def test_unrelated_pods_wake_no_pod(world: World) -> None:
    world.happens(ev.PodUpdated(app("client", "client", near(term("server")))))
    before = world.decisions

    world.happens(ev.PodUpdated(app("other", "other", node="a1")))

    assert world.decisions == before


def test_spread_pods_alternate_between_domains(world: World) -> None:
    for number in range(4):
        world.happens(ev.PodUpdated(app(f"web-{number}", "web", evenly("web"))))

    zones = sorted(name[0] for name in world.at().values())
    assert zones == ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param({"labelSelector": {}}, id="empty-selector"),
        pytest.param({}, id="no-selector"),
    ],
)
def test_spread_without_requirements_counts_no_placed_pod(world: World, selector: Json) -> None:
    hard = {
        **selector,
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeAffinityPolicy": "Ignore",
    }
    in_a: Json = {"nodeSelector": {"zone": "a"}, "topologySpreadConstraints": [hard]}
    for number in range(2):
        world.happens(ev.PodUpdated(app(f"web-{number}", "web", in_a)))

    assert set(world.at()) == {"web-0", "web-1"}


def test_pod_is_woken_by_a_pod_in_the_domain_with_the_fewest(world: World) -> None:
    in_a = {"nodeSelector": {"zone": "a"}, **evenly("web")}
    in_a["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = "Ignore"
    for number in range(2):
        world.happens(ev.PodUpdated(app(f"web-{number}", "web", in_a)))
    assert list(world.at()) == ["web-0"]

    world.happens(ev.PodUpdated(app("elsewhere", "web", node="b1")))

    assert set(world.at()) == {"web-0", "elsewhere", "web-1"}


def test_pod_is_woken_by_a_namespace_that_joins_a_term(world: World) -> None:
    of_team: Json = {"namespaceSelector": {"matchLabels": {"team": "x"}}}
    world.deliver(ev.NamespaceUpdated(namespace("other")))
    world.deliver(ev.PodUpdated(app("server", "server", node="a1", namespace="other")))
    world.happens(ev.PodUpdated(app("client", "client", near(term("server", **of_team)))))
    assert list(world.at()) == ["server"]

    world.happens(ev.NamespaceUpdated(namespace("other", labels={"team": "x"})))

    assert set(world.at()) == {"server", "client"}


def test_pod_is_woken_by_a_node_in_a_new_domain(world: World) -> None:
    by_zone = apart(term("web"))
    for number in range(3):
        world.happens(ev.PodUpdated(app(f"web-{number}", "web", by_zone)))
    assert len(world.at()) == 2

    world.happens(ev.NodeUpdated(zone("c1", "c")))

    assert len(world.at()) == 3
