"""The state after any history is the state that a fresh list would have given."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement
from scheduler.model.node import Namespace, Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.fold import fold
from scheduler.state.node_info import DeviceUsage
from tests.builders import ALLOW_ALL_MAPS, cluster, namespace, pod
from tests.property.strategies import NODE_NAMES, nodes

UIDS = tuple(f"u{number}" for number in range(6))
PROBES = (
    pod("probe", uid="probe", gpus=1),
    pod("probe-0", uid="probe", map="0=n0:0"),
    pod("probe-1", uid="probe", owner="Deployment/web", map="0=alias:0\n1=n1:1"),
)


@st.composite
def sightings(draw: st.DrawFn) -> ev.PodUpdated:
    """One of a few pods, in any state that the API server might show next."""
    uid = draw(st.sampled_from(UIDS))
    return ev.PodUpdated(
        pod(
            f"w-{uid[1:]}",
            uid=uid,
            gpus=draw(st.integers(0, 2)),
            map=draw(st.sampled_from(["0=n0:0", "0=n1:1"])),
            owner=draw(st.sampled_from(["", "StatefulSet/w", "Deployment/web@r1"])),
            devices=draw(st.sampled_from(["gpu:0", "gpu:1,2", "nonsense"])),
            index=draw(st.integers(0, 2)),
            node=draw(st.sampled_from(["", "", *NODE_NAMES])),
            scheduler=draw(st.sampled_from(["gpu-scheduler", "default-scheduler"])),
            phase=draw(st.sampled_from(["Pending", "Running", "Running", "Succeeded"])),
            deleting=draw(st.integers(0, 4)) == 4,
            gates=draw(st.sampled_from([[], [], ["x.example/hold"]])),
            ports=draw(st.sampled_from([[], [{"containerPort": 1, "hostPort": 80}]])),
        )
    )


spaces = st.builds(
    lambda name, maps: namespace(name, maps=maps), st.sampled_from(["team", "b"]), st.booleans()
)
events: st.SearchStrategy[Any] = st.one_of(
    sightings(),
    sightings(),
    sightings(),
    st.sampled_from(UIDS).map(ev.PodDeleted),
    nodes().map(ev.NodeUpdated),
    nodes().map(ev.NodeUpdated),
    st.sampled_from(NODE_NAMES).map(ev.NodeDeleted),
    spaces.map(ev.NamespaceUpdated),
    st.sampled_from(["team", "b"]).map(ev.NamespaceDeleted),
    st.sampled_from(UIDS).map(lambda uid: ("assume", uid)),
    st.builds(ev.BindEnded, st.sampled_from(UIDS), st.sampled_from(ev.BindOutcome)),
)


class History:
    """Events as they come, and beside them the plain truth: the objects that are there."""

    def __init__(self) -> None:
        self.state = Cluster()
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.namespaces: dict[str, Namespace] = {}

    def happens(self, event: Any) -> list[ev.Change]:
        match event:
            case ("assume", uid):
                return self._assume(str(uid))
            case ev.PodUpdated(seen):
                event = ev.PodUpdated(self.possible(seen))
                self.pods.pop(seen.uid, None)
                if not event.pod.is_terminal:
                    self.pods[seen.uid] = event.pod
            case ev.PodDeleted(uid):
                self.pods.pop(uid, None)
            case ev.BindEnded(uid, ev.BindOutcome.GONE) if uid in self.state.assumed:
                self.pods.pop(uid, None)
            case ev.NodeUpdated(one):
                self.nodes[one.name] = one
            case ev.NodeDeleted(name):
                self.nodes.pop(name, None)
            case ev.NamespaceUpdated(space):
                self.namespaces[space.name] = space
            case ev.NamespaceDeleted(name):
                self.namespaces.pop(name, None)
        return fold(self.state, event)

    def possible(self, seen: Pod) -> Pod:
        """A pod never changes its scheduler or its ports, and never leaves its node."""
        before = self.pods.get(seen.uid)
        if before is None:
            return seen
        return msgspec.structs.replace(
            seen,
            scheduler_name=before.scheduler_name,
            host_ports=before.host_ports,
            node_name=before.node_name or seen.node_name,
        )

    def _assume(self, uid: str) -> list[ev.Change]:
        waiting = self.pods.get(uid)
        if waiting is None or not waiting.waits_for("gpu-scheduler") or uid in self.state.assumed:
            return []
        decision = schedule_one(self.state, waiting, ALLOW_ALL_MAPS)
        if isinstance(decision, Placement):
            given_to = Assumption(decision.node_name, decision.devices, decision.index)
            self.state.assume(waiting, given_to)
        return []

    def new_instances(self) -> Cluster:
        """A state made from nothing but what is there."""
        return cluster(*self.namespaces.values(), *self.nodes.values(), *self.pods.values())


def without_order(tally: DeviceUsage) -> DeviceUsage:
    """Holders of one device have no order: an updated pod comes last."""
    holders = {index: sorted(found, key=repr) for index, found in tally.holders.items()}
    return msgspec.structs.replace(tally, holders=holders)


def picture(state: Cluster) -> dict[str, Any]:
    """Every query of a cluster state."""
    tokens = (*NODE_NAMES, "alias")
    return {
        "pods": state.pods,
        "namespaces": state.namespaces.known,
        "nodes": {
            name: (
                node_info.node,
                node_info.pods,
                {resource: used for resource, used in node_info.used.items() if used},
                node_info.ports,
                without_order(node_info.usage),
                node_info.mapped_past_plugin,
            )
            for name, node_info in state.nodes.node_info.items()
        },
        "count": len(state.nodes),
        "aliases": {token: state.resolve(token) for token in tokens},
        "indexes": {
            (one.workload, one.map_text): {
                index: holder.uid in state.pods for index, holder in state.indexes_held(one).items()
            }
            for one in state.pods.values()
        },
        "decisions": [schedule_one(state, probe, ALLOW_ALL_MAPS) for probe in PROBES],
    }


histories = st.lists(events, max_size=25)


@given(histories)
def test_any_history_equals_a_fresh_list(history: list[Any]) -> None:
    past = History()
    for event in history:
        past.happens(event)
    for uid in list(past.state.assumed):
        past.state.forget(uid)

    assert picture(past.state) == picture(past.new_instances())


@given(histories, histories)
def test_a_list_replaces_everything_at_once(before: list[Any], after: list[Any]) -> None:
    """A relist: whatever was missed in between, the list makes good."""
    past, truth = History(), History()
    for event in before:
        past.happens(event)
    for event in after:
        truth.happens(event)
    for uid in list(past.state.assumed):
        past.state.forget(uid)
    again = [past.possible(one) for one in truth.pods.values()]
    fold(past.state, ev.NodesReplaced(tuple(truth.nodes.values())))
    fold(past.state, ev.NamespacesReplaced(tuple(truth.namespaces.values())))
    fold(past.state, ev.PodsReplaced(tuple(again)))

    new_instances = cluster(*truth.namespaces.values(), *truth.nodes.values(), *again)
    assert picture(past.state) == picture(new_instances)


@given(histories)
def test_every_release_emits_its_event(history: list[Any]) -> None:
    """Otherwise a pod that fits now would stay unschedulable for five minutes."""
    past = History()
    for event in history:
        before = {
            name: dict(node_info.used) for name, node_info in past.state.nodes.node_info.items()
        }
        changes = past.happens(event)
        for name, used in before.items():
            now = (
                past.state.nodes.node_info[name].used if name in past.state.nodes.node_info else {}
            )
            freed = {resource for resource, value in used.items() if value > now.get(resource, 0)}
            said: set[str] = set()
            for change in changes:
                if isinstance(change, ev.ClusterEvent) and change.cause is RequeueCause.FREED:
                    said |= change.what if change.node_name == name else set()
            assert freed <= said
