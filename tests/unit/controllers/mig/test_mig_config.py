"""Repartitioning of idle mig-manager nodes: which node, for which pod, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.controllers.leadership.gate import LeaderGate
from scheduler.controllers.mig.mig_config import COOLDOWN_S, SEEN_WITHIN_S, MigConfigController
from scheduler.controllers.node_avoidance import NodeAvoidance
from scheduler.decide.mig import config_change
from scheduler.decide.mig.config_change import MigConfigChange
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Rejection
from scheduler.model import well_known
from scheduler.model.actions import RecordPodEvent, SetMigConfig
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.plugins import REASON_CODES
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.effects import Effects
from scheduler.state.event import ClusterEvent
from scheduler.watch.inbox import Inbox
from tests.builders import ALLOW_ALL_MAPS, cluster, codes, dynamic, node, pod
from tests.scheduler_world import SchedulerWorld
from tests.unit.loop.loop_world import Leader

#: When pods of these tests are created.
BORN = 1_795_773_600.0
MANAGED = {
    well_known.MIG_MANAGER: "true",
    well_known.MIG_WANTED: "all-disabled",
    well_known.MIG_STATE: "success",
    well_known.GPU_PRODUCT: "NVIDIA-A100-SXM4-80GB",
}


def managed(name: str = "n1", gpus: int = 2, **others: Any) -> Node:
    labels = {**MANAGED, **others.pop("labels", {})}
    return node(name, gpus=gpus, labels=labels, **others)


def wants_2g(name: str = "a", count: int = 1, **fields: Any) -> Pod:
    return pod(name, mig={"2g.20gb": count}, **fields)


def candidate(state: Cluster, newcomer: Pod) -> MigConfigChange | None:
    """The repartition that one pod alone would cause."""
    return config_change.candidate(config_change.idle_nodes(state), newcomer, ALLOW_ALL_MAPS)


@pytest.mark.contract("S3-18")
def test_idle_node_is_partitioned_completely_for_the_profile() -> None:
    assert candidate(cluster(managed()), wants_2g()) == MigConfigChange("n1", "all-2g.20gb")
    assert candidate(cluster(managed()), pod(mig={"1g.10gb.me": 1})) == MigConfigChange(
        "n1", "all-1g.10gb.me"
    )


def test_the_node_with_the_fewest_gpus_is_taken() -> None:
    state = cluster(managed("a", gpus=8), managed("b", gpus=2), managed("c", gpus=2))

    assert candidate(state, wants_2g()) == MigConfigChange("b", "all-2g.20gb")


def test_ambiguous_gpu_model_is_resolved_by_memory() -> None:
    """An H20 with 141 GB has other profiles than one with 96."""
    h20 = {well_known.GPU_PRODUCT: "NVIDIA-H20", well_known.GPU_MEMORY: "143771"}
    state = cluster(managed(labels=h20))

    assert candidate(state, pod(mig={"1g.18gb": 1})) == MigConfigChange("n1", "all-1g.18gb")
    assert candidate(state, pod(mig={"1g.12gb": 1})) is None


NOT_TOUCHED = [
    pytest.param([managed(), pod("x", gpus=1, node="n1")], id="a-gpu-is-held"),
    pytest.param(
        [managed(), pod("x", gpus=1, node="n1", scheduler="other")], id="by-another-scheduler"
    ),
    pytest.param([managed(), pod("x-0", map="0=n1:1", node="n1")], id="past-the-plugin"),
    pytest.param([managed(labels={well_known.MIG_MANAGER: "false"})], id="no-mig-manager"),
    pytest.param([managed(labels={well_known.MIG_STATE: "pending"})], id="it-is-being-cut"),
    pytest.param([managed(labels={well_known.MIG_STATE: "failed"})], id="cutting-failed"),
    pytest.param([managed(gpus=0)], id="no-whole-gpus"),
    pytest.param([managed(labels={well_known.GPU_PRODUCT: "Tesla-T4"})], id="a-board-without-mig"),
    pytest.param([managed(cordoned=True)], id="cordoned"),
    pytest.param([managed(taints=["a=b:NoSchedule"])], id="a-taint"),
    pytest.param([dynamic(labels=MANAGED)], id="its-operator-cuts-to-order"),
]


@pytest.mark.contract("S3-18", "S3-B5", "S3-B18")
@pytest.mark.parametrize("objects", NOT_TOUCHED)
def test_other_nodes_are_left_as_they_are(objects: list[Any]) -> None:
    assert candidate(cluster(*objects), wants_2g()) is None


NOT_FOR = [
    pytest.param(wants_2g(count=7), id="more-than-the-node-would-have"),
    pytest.param(pod("a", mig={"2g.20gb": 1, "1g.10gb": 1}), id="two-profiles"),
    pytest.param(pod("a", gpus=1), id="whole-gpus"),
    pytest.param(pod("a-0", mig={"2g.20gb": 1}, map="0=n1:0"), id="a-map"),
    pytest.param(pod("a", mig={"9g.90gb": 1}), id="no-profile-of-the-board"),
]


@pytest.mark.contract("S3-B5")
@pytest.mark.parametrize("newcomer", NOT_FOR)
def test_other_pods_request_no_partition(newcomer: Pod) -> None:
    assert candidate(cluster(managed()), newcomer) is None


def test_pods_without_gpus_do_not_block_partitioning() -> None:
    assert candidate(cluster(managed(), pod("x", node="n1")), wants_2g()) is not None


class Stage(SchedulerWorld):
    """A state with one pod that waits, and a wall clock."""

    def __init__(self, *objects: Any) -> None:
        super().__init__(*objects, now=BORN)
        self.sent: list[SetMigConfig] = []
        self.said: list[str] = []
        metrics, gate = Metrics("gpu-scheduler"), LeaderGate(Leader(), [], Inbox())
        self.relabeling = MigConfigController(
            self.state,
            NodeAvoidance(self.cluster, metrics, gate),
            lambda: self.now,
            ALLOW_ALL_MAPS,
        )
        self.park(wants_2g())

    def park(self, newcomer: Pod) -> None:
        before = len(self.queue)
        self.deliver(ev.PodUpdated(newcomer))
        self.decide_due()
        assert len(self.queue) == before + 1, "the pod is refused"

    def tick(self, seconds: float = 0.0) -> Effects:
        """The changes that follow from a tick; events and labels are kept by themselves."""
        self.now += seconds
        others: Effects = ()
        for effect in self.relabeling.tick():
            match effect:
                case RecordPodEvent(pod, reason, text):
                    self.said.append(f"{pod.name} {reason}: {text}")
                case SetMigConfig():
                    self.sent.append(effect)
                case _:
                    others += (effect,)
        return others


@pytest.mark.contract("S3-18")
def test_only_after_half_a_minute_of_waiting() -> None:
    stage = Stage(managed())
    stage.tick(29)
    assert stage.sent == []

    stage.tick(1)

    assert stage.sent == [SetMigConfig("n1", "all-2g.20gb")]
    assert stage.said == [
        "a MigConfigChanged: n1 is idle; nvidia.com/mig.config is set to all-2g.20gb"
    ]


def test_node_takes_no_pod_until_the_new_label_is_seen() -> None:
    stage = Stage(managed())
    stage.tick(30)
    assert codes(stage.cluster, pod("b", gpus=1)) == {REASON_CODES["NODE_AVOIDED"]}

    done = {well_known.MIG_WANTED: "all-2g.20gb", well_known.MIG_STATE: "pending"}
    stage.cluster.upsert_node(managed(labels=done))
    [change] = stage.tick(1)

    assert isinstance(change, ClusterEvent)
    assert codes(stage.cluster, pod("b", gpus=1)) == {REASON_CODES["MIG_NOT_READY"]}


def test_a_label_that_never_appears_frees_the_node_again() -> None:
    """The right to set it may be missing."""
    stage = Stage(managed())
    stage.tick(30)
    stage.tick(SEEN_WITHIN_S - 1)
    assert codes(stage.cluster, pod("b", gpus=1)) == {REASON_CODES["NODE_AVOIDED"]}

    stage.tick(1)

    assert not isinstance(schedule_one(stage.cluster, pod("b", gpus=1), ALLOW_ALL_MAPS), Rejection)


def test_label_request_of_a_former_leader_times_out() -> None:
    """This replica leads again after the time in which the node is left alone."""
    stage = Stage(managed())
    stage.tick(30)

    [change] = stage.tick(COOLDOWN_S)

    assert isinstance(change, ClusterEvent)


@pytest.mark.contract("S3-B18")
def test_one_node_at_a_time_and_none_again_for_ten_minutes() -> None:
    stage = Stage(managed("n1"), managed("n2"))
    for _ in range(60):
        stage.tick(1)
    assert [one.node_name for one in stage.sent] == ["n1", "n2"]

    stage.tick(COOLDOWN_S)

    assert len(stage.sent) == 3


def test_only_matching_pods_wait_for_the_node_being_partitioned() -> None:
    """As many as it will have room for: the rest do need another node."""
    stage = Stage(managed())
    for number in range(7):
        stage.park(pod(f"b{number}", mig={"2g.20gb": 1}))
    stage.tick(40)
    pods = [entry.pod for entry in stage.queue.entries()]

    assert [stage.relabeling.awaited(one) for one in pods] == ["n1"] * 6 + ["", ""]


@pytest.mark.parametrize(
    ("state", "mig", "node_name"),
    [
        pytest.param("pending", {}, "n1", id="it-works"),
        pytest.param("success", {}, "n1", id="no-instance-is-advertised-yet"),
        pytest.param("success", {"2g.20gb": 6}, "", id="done"),
        pytest.param("failed", {}, "", id="failed"),
    ],
)
def test_waiting_ends_when_partitioning_succeeds_or_fails(
    state: str, mig: dict[str, int], node_name: str
) -> None:
    stage = Stage(managed())
    stage.tick(40)
    labels = {well_known.MIG_WANTED: "all-2g.20gb", well_known.MIG_STATE: state}
    stage.cluster.upsert_node(managed(labels=labels, mig=mig))
    stage.tick(1)
    [entry] = stage.queue.entries()

    assert stage.relabeling.awaited(entry.pod) == node_name


def test_waiting_ends_when_the_label_never_appears() -> None:
    stage = Stage(managed())
    stage.tick(40)
    stage.tick(SEEN_WITHIN_S)
    [entry] = stage.queue.entries()

    assert stage.relabeling.awaited(entry.pod) == ""


def test_waiting_ends_with_the_pause_of_the_node() -> None:
    """A mig-manager that is not there leaves the state at pending for ever."""
    stage = Stage(managed())
    stage.tick(40)
    stage.cluster.upsert_node(
        managed(labels={well_known.MIG_WANTED: "all-2g.20gb", well_known.MIG_STATE: "pending"})
    )
    stage.tick(COOLDOWN_S - 1)
    [entry] = stage.queue.entries()
    assert stage.relabeling.awaited(entry.pod) == "n1"

    stage.tick(1)

    assert stage.relabeling.awaited(entry.pod) == ""
