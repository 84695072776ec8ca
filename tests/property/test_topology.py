"""The counts per topology domain are those of a walk over all pods, whatever happens before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.node import Namespace, Node
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_affinity import (
    PodAffinity,
    PodSelector,
    PodSet,
    PodTerm,
    WeightedPodTerm,
)
from scheduler.model.selector import Requirement, Taint, Toleration, untolerated
from scheduler.state.topology.domains import Eligibility
from scheduler.state.topology.reader import Change, PodsPerDomain, TopologyReader
from scheduler.state.topology.topology import Topology, weighted_terms

T = TypeVar("T")

KEYS = ("zone", "host")
NAMESPACES = ("a", "b")
WORDS = ("x", "y")

names = st.sampled_from([f"n{number}" for number in range(4)])
labels = st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from(WORDS), max_size=2)
requirements = st.one_of(
    st.builds(
        Requirement,
        st.sampled_from(("app", "tier")),
        st.just("In"),
        st.tuples(st.sampled_from(WORDS)),
    ),
    st.builds(
        Requirement,
        st.sampled_from(("app", "tier")),
        st.just("NotIn"),
        st.tuples(st.sampled_from(WORDS)),
    ),
    st.builds(Requirement, st.just("app"), st.just("Exists")),
)
selectors = st.one_of(
    st.just(PodSelector()),
    st.lists(requirements, max_size=2).map(lambda found: PodSelector(tuple(found))),
)
sets = st.one_of(
    st.builds(PodSet, selectors, st.lists(st.sampled_from(NAMESPACES), unique=True).map(tuple)),
    st.builds(PodSet, selectors, st.just(()), selectors),
)
terms = st.builds(PodTerm, st.sampled_from(KEYS), sets)
affinities = st.builds(
    PodAffinity,
    st.lists(terms, max_size=1).map(tuple),
    st.lists(terms, max_size=2).map(tuple),
    st.lists(st.builds(WeightedPodTerm, st.sampled_from((-3, 2)), terms), max_size=1).map(tuple),
)
pods = st.builds(
    Pod,
    uid=st.sampled_from([f"u{number}" for number in range(6)]),
    name=st.just("p"),
    namespace=st.sampled_from(NAMESPACES),
    labels=labels,
    affinity=affinities,
    is_deleting=st.booleans(),
)
nodes = st.builds(
    Node,
    name=names,
    labels=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(WORDS), max_size=2),
    taints=st.sampled_from([(), (Taint("t", "", "NoSchedule"),)]),
)
namespaces = st.builds(Namespace, name=st.sampled_from(NAMESPACES), labels=labels)
eligibilities = st.builds(
    Eligibility,
    st.sampled_from([(), ("zone",), KEYS]),
    st.sampled_from([(), (("zone", "x"),)]),
    st.none(),
    st.sampled_from([None, (), (Toleration("t", "Exists"),)]),
)
steps = st.one_of(
    st.tuples(st.just("place"), pods, names),
    st.tuples(st.just("remove"), st.sampled_from([f"u{number}" for number in range(6)])),
    st.tuples(st.just("node"), nodes),
    st.tuples(st.just("no-node"), names),
    st.tuples(st.just("namespace"), namespaces),
    st.tuples(st.just("read"), sets, st.sampled_from(KEYS), eligibilities),
    st.tuples(st.just("read-terms"), pods),
)


class World:
    """The counts, and beside them everything that is there."""

    def __init__(self) -> None:
        self.namespaces: dict[str, Namespace] = {}
        self.nodes: dict[str, Node] = {}
        self.placed: dict[str, tuple[Pod, str]] = {}
        self.topology = Topology(self.namespace)
        self.reader = TopologyReader(self.topology)

    def namespace(self, name: str) -> Namespace:
        return self.namespaces.get(name) or Namespace(name=name)

    def take(self, step: tuple[object, ...]) -> None:
        match step:
            case ("place", Pod() as pod, str(at)):
                self.placed[pod.uid] = (pod, at)
                self.topology.add_pod(pod, at)
            case ("remove", str(uid)):
                self.placed.pop(uid, None)
                self.topology.remove_pod(uid)
            case ("node", Node() as node):
                self.nodes[node.name] = node
                self.topology.upsert_node(node)
            case ("no-node", str(name)):
                self.nodes.pop(name, None)
                self.topology.delete_node(name)
            case ("namespace", Namespace() as namespace):
                self.namespaces[namespace.name] = namespace
                self.topology.relabel_namespace(namespace.name)

    def check(self, step: tuple[object, ...], changes: tuple[Change, ...]) -> None:
        reader = self.reader.with_changes(changes) if changes else self.reader
        everywhere = [(pod, at, 1) for pod, at in self.placed.values()]
        everywhere += [(one.pod, one.node_name, one.delta) for one in changes]
        match step:
            case ("read", PodSet() as wanted, str(key), Eligibility() as eligibility):
                matching = [
                    (pod, at, n)
                    for pod, at, n in everywhere
                    if wanted.has(self.namespace(pod.namespace), pod.labels)
                ]
                near = reader.affine((wanted,), key)
                assert_counts(near.at, self.per_value(matching, key, None))
                assert set(near.values()) == set(+self.per_value(matching, key, None))
                living = [one for one in matching if not one[0].is_deleting]
                spread = reader.spread(wanted, key, eligibility)
                expected = self.per_value(living, key, eligibility)
                assert_counts(spread.at, expected)
                domains = {
                    node.labels[key]
                    for node in self.nodes.values()
                    if key in node.labels and is_eligible(node, eligibility)
                }
                for least in (1, 2):
                    lowest = min((expected[value] for value in domains), default=0)
                    assert spread.least(least) == (lowest if len(domains) >= least else 0)
            case ("read-terms", Pod() as pod):
                space = self.namespace(pod.namespace)
                anti = Counter[tuple[PodTerm, str]]()
                weights = Counter[tuple[WeightedPodTerm, str]]()
                for other, at, n in everywhere:
                    for term in other.affinity.required_anti:
                        if term.pods.has(space, pod.labels):
                            anti.update(self.valued(term, term.topology_key, at, n))
                    for one in weighted_terms(other):
                        if one.term.pods.has(space, pod.labels):
                            weights.update(self.valued(one, one.term.topology_key, at, n))
                assert +anti == positive(reader.anti_terms(pod))
                assert +weights == positive(reader.weighted_terms(pod))

    def per_value(
        self, pods: list[tuple[Pod, str, int]], key: str, eligibility: Eligibility | None
    ) -> Counter[str]:
        found: Counter[str] = Counter()
        for _, at, n in pods:
            node = self.nodes.get(at)
            if node is None or key not in node.labels:
                continue
            if eligibility is None or is_eligible(node, eligibility):
                found[node.labels[key]] += n
        return found

    def valued(self, item: T, key: str, at: str, n: int) -> Mapping[tuple[T, str], int]:
        node = self.nodes.get(at)
        return {(item, node.labels[key]): n} if node is not None and key in node.labels else {}


def is_eligible(node: Node, eligibility: Eligibility) -> bool:
    """Written out once more, from semantics 3.5."""
    return (
        all(key in node.labels for key in eligibility.keys)
        and all(node.labels.get(key) == value for key, value in eligibility.node_selector)
        and (
            eligibility.tolerations is None
            or untolerated(node.taints, eligibility.tolerations) is None
        )
    )


def positive(found: list[tuple[T, PodsPerDomain]]) -> Counter[tuple[T, str]]:
    return Counter(
        {(item, value): near.at(value) for item, near in found for value in near.values()}
    )


def assert_counts(at: Callable[[str], int], expected: Mapping[str, int]) -> None:
    assert {value: at(value) for value in WORDS} == {
        value: expected.get(value, 0) for value in WORDS
    }


@settings(max_examples=400)
@given(st.lists(steps, max_size=25), st.lists(st.tuples(pods, names), max_size=2), st.data())
def test_counts_are_those_of_a_walk_over_all_pods(
    history: list[tuple[object, ...]], tried: list[tuple[Pod, str]], data: st.DataObject
) -> None:
    world = World()
    for step in history:
        world.take(step)
        world.check(step, ())
    leaving = data.draw(st.sets(st.sampled_from(sorted(world.placed)))) if world.placed else set()
    changes = [Change(pod, at, 1) for pod, at in tried]
    changes += [Change(*world.placed[uid], -1) for uid in sorted(leaving)]
    for step in history:
        world.check(step, tuple(changes))
