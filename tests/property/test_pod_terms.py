"""The filters of pod affinity and topology spread answer as a walk over all pods would.

The walk is written out from kube-scheduler's rules, on the pods and nodes themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.decide.best_fit import scan
from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.view import WhatIfView
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Rejection
from scheduler.framework.pipeline import PreFiltered, first_bound_rejection
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.gpu.device import Devices
from scheduler.model.node import Node
from scheduler.model.pods.default_spread import default_constraints
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_affinity import PodSet, SpreadConstraint
from scheduler.model.selector import matches_any, untolerated
from scheduler.plugins import inter_pod_affinity, pod_topology_spread
from scheduler.state.cache.cluster import Assumption, Cluster
from tests.builders import ALLOW_ALL_MAPS, namespace, pod
from tests.property.term_strategies import labels, machine, names, spec

SETTINGS = Settings()
SPREADING = Settings(default_spread=True)


@st.composite
def wanted(draw: st.DrawFn, name: str, at: str = "") -> Pod:
    return pod(
        name,
        namespace=draw(st.sampled_from(("team", "other"))),
        labels=draw(labels),
        node=at,
        deleting=draw(st.integers(0, 4)) == 0 if at else False,
        owner=draw(st.sampled_from(("", "StatefulSet/s"))),
        spec=draw(spec()),
    )


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Cluster, WhatIfView | None]:
    cluster = Cluster()
    for name in ("team", "other"):
        if draw(st.booleans()):
            cluster.upsert_namespace(namespace(name, labels=draw(labels)))
    steps = draw(st.permutations([*range(4), *range(10, 16)]))
    for step in steps:
        if step < 10:
            cluster.upsert_node(draw(machine(step)))
        elif draw(st.booleans()):
            cluster.upsert_pod(draw(wanted(f"p{step}", draw(names))))
        else:
            cluster.assume(draw(wanted(f"p{step}")), Assumption(draw(names), Devices()))
    for _ in range(draw(st.integers(0, 2))):
        if cluster.pods:
            cluster.delete_pod(draw(st.sampled_from(sorted(cluster.pods))))
        cluster.upsert_node(draw(machine(draw(st.integers(0, 4)))))
    if not draw(st.booleans()):
        return cluster, None
    view = WhatIfView(cluster)
    for number in range(draw(st.integers(1, 2))):
        view.place(draw(wanted(f"tried{number}")), draw(names), None)
    return cluster, view


@settings(max_examples=100)
@given(worlds(), wanted("new"))
def test_filters_of_terms_answer_as_a_walk_would(
    world: tuple[Cluster, WhatIfView | None], newcomer: Pod
) -> None:
    cluster, tried = world
    view: View = tried or cluster
    filtered = ALLOW_ALL_MAPS.pre_filter(view, newcomer)
    assert isinstance(filtered, PreFiltered)
    walk = Walk(cluster, view, newcomer)
    for node_info in view.candidates():
        assert node_info.node is not None
        reasons = first_bound_rejection(node_info, filtered.bound)
        assert [reason.text for reason in reasons] == walk.reasons(node_info.node)
        for bound in filtered.bound:
            if bound.only is not None and node_info.node.name not in bound.only:
                assert bound.check(node_info)


@settings(max_examples=60)
@given(worlds(), st.lists(wanted("new"), min_size=1, max_size=2), st.data())
def test_kept_rejections_are_those_of_every_node(
    world: tuple[Cluster, WhatIfView | None], newcomers: list[Pod], data: st.DataObject
) -> None:
    """Whatever is kept of earlier rejections, each node's reasons are its present ones."""
    cluster, _ = world
    for _ in range(4):
        newcomer = data.draw(st.sampled_from(newcomers))
        decision = schedule_one(cluster, newcomer, ALLOW_ALL_MAPS)
        filtered = ALLOW_ALL_MAPS.pre_filter(cluster, newcomer)
        assert isinstance(filtered, PreFiltered)
        every = (cluster.candidates(), newcomer, Budget(10**9), ALLOW_ALL_MAPS, filtered.bound)
        found, rejected = scan(*every)
        assert (found is None) is isinstance(decision, Rejection)
        if isinstance(decision, Rejection) and rejected:
            assert decision.diagnosis.nodes == rejected
        if data.draw(st.booleans()):
            cluster.upsert_pod(data.draw(wanted(f"p{data.draw(st.integers(0, 3))}", "n0")))
        elif data.draw(st.booleans()):
            cluster.upsert_node(data.draw(machine(data.draw(st.integers(0, 4)))))


@settings(max_examples=100)
@given(worlds(), wanted("new"), st.data())
def test_scores_of_terms_are_those_of_a_walk(
    world: tuple[Cluster, WhatIfView | None], newcomer: Pod, data: st.DataObject
) -> None:
    cluster, tried = world
    view: View = tried or cluster
    every = [info for info in view.candidates() if info.node is not None]
    if not every:
        return
    feasible = data.draw(st.lists(st.sampled_from(every), min_size=1, unique_by=id))
    walk = Walk(cluster, view, newcomer)
    nodes = [info.node for info in feasible if info.node is not None]

    affinity = inter_pod_affinity.score(view, newcomer, feasible, SETTINGS)
    assert affinity == walk.affinity_scores(nodes)
    spread = pod_topology_spread.score(view, newcomer, feasible, SETTINGS)
    assert spread == walk.spread_scores(nodes)
    default = pod_topology_spread.default_score(view, newcomer, feasible, SPREADING)
    assert default == walk.default_scores(nodes)
    if not inter_pod_affinity.compares_nodes(view, newcomer, SETTINGS):
        assert set(walk.affinity_scores(nodes)) == {0}


class Walk:
    """kube-scheduler's rules, by looking at every pod."""

    def __init__(self, cluster: Cluster, view: View, newcomer: Pod) -> None:
        self.cluster, self.newcomer = cluster, newcomer
        self.nodes = [info.node for info in view.candidates() if info.node is not None]
        self.placed = [
            (held, info.node)
            for info in view.candidates()
            if info.node is not None
            for held, _ in info.pods.values()
        ]

    def reasons(self, at: Node) -> list[str]:
        return list(self.of_spread(at)) or list(self.of_affinity(at))

    def is_in(self, pods: PodSet, one: Pod) -> bool:
        space = self.cluster.namespace(one.namespace)
        return pods.has(space, one.labels)

    def counts(self, one: SpreadConstraint, held: Pod) -> bool:
        """An empty selector counts no placed pod (countPodsMatchSelector)."""
        return bool(one.pods.selector.requirements) and self.is_in(one.pods, held)

    def of_spread(self, at: Node) -> Iterator[str]:
        hard = [one for one in self.newcomer.spread if one.is_hard]
        text = "node(s) didn't match pod topology spread constraints"
        for one in hard:
            if one.topology_key not in at.labels:
                yield f"{text} (missing required label)"
                return
            counts: dict[str, int] = {}
            for each in self.nodes:
                if self.is_eligible(each, one, hard):
                    counts.setdefault(each.labels[one.topology_key], 0)
            for held, where in self.placed:
                if (
                    self.is_eligible(where, one, hard)
                    and not held.is_deleting
                    and self.counts(one, held)
                ):
                    counts[where.labels[one.topology_key]] += 1
            least = min(counts.values(), default=0)
            if len(counts) < one.min_domains:
                least = 0
            itself = self.is_in(one.pods, self.newcomer)
            if counts.get(at.labels[one.topology_key], 0) + itself - least > one.max_skew:
                yield text
                return

    def is_eligible(self, at: Node, one: SpreadConstraint, hard: list[SpreadConstraint]) -> bool:
        if any(each.topology_key not in at.labels for each in hard):
            return False
        return self.is_counted(at, one)

    def is_counted(self, at: Node, one: SpreadConstraint) -> bool:
        wanted = self.newcomer
        if one.honors_affinity:
            if any(at.labels.get(key) != value for key, value in wanted.node_selector.items()):
                return False
            if wanted.required_terms is not None and not matches_any(
                wanted.required_terms, at.labels, at.name
            ):
                return False
        return not one.honors_taints or untolerated(at.taints, wanted.tolerations) is None

    def of_affinity(self, at: Node) -> Iterator[str]:
        affinity = self.newcomer.affinity
        if affinity.required and not self.is_near(at):
            yield "node(s) didn't match pod affinity rules"
            return
        for one in affinity.required_anti:
            for held, where in self.placed:
                if self.share(one.topology_key, at, where) and self.is_in(one.pods, held):
                    yield "node(s) didn't match pod anti-affinity rules"
                    return
        for held, where in self.placed:
            for one in held.affinity.required_anti:
                if self.share(one.topology_key, at, where) and self.is_in(one.pods, self.newcomer):
                    yield "node(s) didn't satisfy existing pods anti-affinity rules"
                    return

    def is_near(self, at: Node) -> bool:
        terms = self.newcomer.affinity.required
        if any(one.topology_key not in at.labels for one in terms):
            return False
        matching = [
            where for held, where in self.placed if all(self.is_in(one.pods, held) for one in terms)
        ]
        if all(any(self.share(one.topology_key, at, w) for w in matching) for one in terms):
            return True
        anywhere = any(one.topology_key in w.labels for w in matching for one in terms)
        return not anywhere and all(self.is_in(one.pods, self.newcomer) for one in terms)

    @staticmethod
    def share(key: str, one: Node, other: Node) -> bool:
        return key in one.labels and one.labels[key] == other.labels.get(key)

    def affinity_scores(self, nodes: list[Node]) -> list[int]:
        sums = [self.affinity_sum(at) for at in nodes]
        least, most = min(sums), max(sums)
        if least == most:
            return [0] * len(sums)
        return [int(100 * ((one - least) / (most - least))) for one in sums]

    def affinity_sum(self, at: Node) -> int:
        total = 0
        for held, where in self.placed:
            for one in self.newcomer.affinity.preferred:
                if self.share(one.term.topology_key, at, where) and self.is_in(one.term.pods, held):
                    total += one.weight
            theirs = [(one.weight, one.term) for one in held.affinity.preferred]
            theirs += [(1, one) for one in held.affinity.required]
            for weight, term in theirs:
                if self.share(term.topology_key, at, where) and self.is_in(
                    term.pods, self.newcomer
                ):
                    total += weight
        return total

    def spread_scores(self, nodes: list[Node]) -> list[int]:
        soft = [one for one in self.newcomer.spread if not one.is_hard]
        return self.scores_of(nodes, soft, needed=soft)

    def default_scores(self, nodes: list[Node]) -> list[int]:
        """kube-scheduler's system defaults need no label of a node."""
        return self.scores_of(nodes, list(default_constraints(self.newcomer)), [])

    def scores_of(
        self, nodes: list[Node], soft: list[SpreadConstraint], needed: list[SpreadConstraint]
    ) -> list[int]:
        if not soft:
            return [0] * len(nodes)
        complete = [at for at in nodes if all(one.topology_key in at.labels for one in needed)]
        raw: list[int | None] = []
        for at in nodes:
            if at not in complete:
                raw.append(None)
                continue
            score = 0.0
            for one in soft:
                key = one.topology_key
                is_host = key == "kubernetes.io/hostname"
                values = {each.labels.get(key) for each in complete}
                domains = len(complete if is_host else values)
                if key not in at.labels:
                    continue
                count = sum(
                    1
                    for held, where in self.placed
                    if self.share(key, at, where)
                    and self.is_eligible(where, one, needed)
                    and not held.is_deleting
                    and self.counts(one, held)
                )
                score += count * math.log(domains + 2) + one.max_skew - 1
            raw.append(math.floor(score + 0.5))
        counted = [one for one in raw if one is not None]
        least, most = min(counted, default=0), max(counted, default=0)
        return [
            0 if one is None else 100 * (most + least - one) // most if most else 100 for one in raw
        ]
