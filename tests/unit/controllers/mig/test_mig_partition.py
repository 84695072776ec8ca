"""Placements that wait for MIG instances, on a state that a test writes."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.controllers.leadership.gate import LeaderGate
from scheduler.controllers.mig.mig_partition import PartitionController
from scheduler.controllers.node_avoidance import NodeAvoidance
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import CreateInstances, PendingPlacement
from scheduler.model.actions import (
    CompleteStep,
    DropPlacement,
    RecordPodEvent,
    RequestPartitions,
)
from scheduler.model.crd.mig_partition import (
    MigInstance,
    NodePartitions,
    PartitionRequest,
    PartitionState,
)
from scheduler.model.gpu.device import Devices, MigPlacement
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.plugins import REASON_CODES
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.fold import fold
from scheduler.watch.inbox import Inbox
from tests.builders import ALLOW_ALL_MAPS, cluster, codes, dynamic, pod
from tests.unit.loop.loop_world import Leader

WALL = 1_800_000_000.0
UNTIL = "2027-01-15T08:01:00Z"
TWO = MigPlacement(0, 4, "2g.20gb")


class Stage:
    """A cluster and its pending placements; ``sent`` is the newest request of each node."""

    def __init__(self, *objects: Any) -> None:
        self.cluster = cluster(*objects)
        self.now = 100.0
        self.sent: dict[str, tuple[PartitionRequest, ...]] = {}
        self.said: list[tuple[str, str]] = []
        self.metrics = Metrics("gpu-scheduler")
        gate = LeaderGate(Leader(), [], Inbox())
        self.carving = PartitionController(
            self.cluster,
            self.metrics,
            NodeAvoidance(self.cluster, self.metrics, gate),
            lambda: WALL + self.now - 100,
            timeout_s=60,
        )

    @property
    def counted(self) -> list[str]:
        """The results that the metric counts."""
        [family] = self.metrics.mig_partitions.collect()
        return [
            one.labels["result"]
            for one in family.samples
            if one.name.endswith("_total")
            for _ in range(int(one.value))
        ]

    def _heard(self, effects: Effects) -> Effects:
        """The effects without events and requests, which are kept by themselves."""
        others: Effects = ()
        for effect in effects:
            match effect:
                case RecordPodEvent(_, reason, text):
                    self.said.append((reason, text))
                case RequestPartitions(node_name, requests):
                    self.sent[node_name] = requests
                case _:
                    others += (effect,)
        return others

    def begin(self, newcomer: Pod) -> Effects:
        """Decide, assume and ask, as the loop does."""
        self.cluster.upsert_pod(newcomer)
        decision = schedule_one(self.cluster, newcomer, ALLOW_ALL_MAPS)
        assert isinstance(decision, PendingPlacement)
        self.cluster.assume(newcomer, Assumption(decision.node_name, decision.devices))
        return self._heard(self.carving.begin(decision, self.now))

    def see(self, event: ev.Event) -> Effects:
        fold(self.cluster, event)
        return self._heard(self.carving.handle(event, self.now))

    def answer(self, *instances: MigInstance, node_name: str = "n1") -> Effects:
        return self.see(ev.PartitionsUpdated(NodePartitions(node_name, instances=instances)))

    def tick(self, seconds: float, *, leads: bool = True) -> Effects:
        self.now += seconds
        return self._heard(self.carving.tick(self.now, leads=leads))


def bound(*uids: str) -> Effects:
    """The Bindings of these pods do not wait for their MIG instances any more."""
    return tuple(CompleteStep(uid, CreateInstances.name) for uid in uids)


def started(effects: Effects) -> list[str]:
    """The pods whose Bindings are started."""
    return [one.uid for one in effects if isinstance(one, CompleteStep)]


@pytest.fixture
def stage() -> Stage:
    return Stage(dynamic())


def wants_2g(name: str = "a", **fields: Any) -> Pod:
    return pod(name, mig={"2g.20gb": 1}, **fields)


def advertised(count: int) -> ev.NodeUpdated:
    return ev.NodeUpdated(dynamic(mig={"2g.20gb": count}))


def ready(mig_placement: MigPlacement = TWO, **others: Any) -> MigInstance:
    return MigInstance(mig_placement, PartitionState.READY, **others)


def failed(deadline: str = UNTIL) -> MigInstance:
    """The operator's no."""
    return MigInstance(TWO, PartitionState.FAILED, message="no room on the die", deadline=deadline)


def test_missing_instances_are_requested_with_a_deadline(stage: Stage) -> None:
    assert stage.begin(wants_2g()) == NOTHING

    assert stage.sent == {"n1": (PartitionRequest(TWO, "team-a", UNTIL),)}
    assert stage.said == [("PartitionRequested", "requested on node n1: 2g.20gb@0/4")]


def test_held_instances_stay_in_the_request() -> None:
    stage = Stage(dynamic(), wants_2g("old", node="n1", devices="2g.20gb@0/0"))
    stage.begin(wants_2g())

    assert stage.sent["n1"] == (
        PartitionRequest(MigPlacement(0, 0, "2g.20gb"), "team-old"),
        PartitionRequest(MigPlacement(0, 2, "2g.20gb"), "team-a", UNTIL),
    )


def test_pod_binds_when_instance_exists_and_is_advertised(stage: Stage) -> None:
    stage.begin(wants_2g())

    assert stage.answer(MigInstance(TWO, PartitionState.PENDING, deadline=UNTIL)) == NOTHING
    assert stage.answer(ready()) == NOTHING
    assert stage.see(advertised(1)) == bound("team-a")
    assert stage.counted == ["ready"]
    assert stage.see(advertised(2)) == NOTHING  # once


def test_advertised_instance_counts_before_the_partition_answer(stage: Stage) -> None:
    stage.begin(wants_2g())
    assert stage.see(advertised(1)) == NOTHING

    assert stage.answer(ready(uuid="MIG-1")) == bound("team-a")


def test_one_advertised_instance_binds_one_waiting_pod(stage: Stage) -> None:
    stage.begin(wants_2g("a"))
    stage.begin(wants_2g("b"))
    stage.answer(*(ready(order.mig_placement) for order in stage.sent["n1"]))

    assert len(started(stage.see(advertised(1)))) == 1
    assert len(started(stage.see(advertised(2)))) == 1


def test_advertised_instances_held_by_others_are_subtracted() -> None:
    stage = Stage(dynamic(), wants_2g("old", node="n1", devices="2g.20gb@0/0"))
    stage.begin(wants_2g())
    stage.answer(*(ready(order.mig_placement) for order in stage.sent["n1"]))

    assert stage.see(advertised(1)) == NOTHING
    assert started(stage.see(advertised(2))) == ["team-a"]


def test_an_idle_instance_that_is_advertised_needs_no_waiting() -> None:
    """The kubelet has started to advertise it since the decision."""
    stage = Stage(dynamic(), NodePartitions("n1", instances=(ready(),)))
    stage.cluster.upsert_node(dynamic(mig={"2g.20gb": 1}))
    newcomer = wants_2g()
    stage.cluster.upsert_pod(newcomer)
    carve = PendingPlacement(pod=newcomer, node_name="n1", devices=Devices(mig_placements=(TWO,)))
    stage.cluster.assume(newcomer, Assumption("n1", carve.devices))

    assert stage._heard(stage.carving.begin(carve, stage.now)) == bound("team-a")
    assert stage.said == []


def test_failed_partition_backs_off_the_gpu_and_retries_elsewhere() -> None:
    stage = Stage(dynamic(gpus=2))
    stage.begin(wants_2g())

    effects = stage.answer(failed())

    text = "n1: no room on the die; backoff of GPU 0 for 30 s"
    assert DropPlacement("team-a") in effects
    failure = ev.BindFailed(stage.cluster.pods["team-a"], text, "creating MIG instances failed")
    # The failure takes the placement along, so it comes first.
    assert effects.index(failure) < effects.index(DropPlacement("team-a"))
    assert stage.said[-1] == ("PartitionFailed", text)
    assert stage.counted == ["failed"]
    stage.begin(wants_2g("b"))
    assert stage.sent["n1"] == (PartitionRequest(MigPlacement(1, 4, "2g.20gb"), "team-b", UNTIL),)


def test_gpu_in_backoff_is_the_reason_where_no_other_is_left(stage: Stage) -> None:
    stage.begin(wants_2g())
    stage.answer(failed())

    assert codes(stage.cluster, wants_2g("b")) == {REASON_CODES["GPU_BACKOFF"]}


def test_end_of_gpu_backoff_requeues_waiting_pods(stage: Stage) -> None:
    stage.begin(wants_2g())
    stage.answer(failed())

    assert stage.tick(29) == NOTHING
    assert stage.tick(1) == (ev.ClusterEvent(RequeueCause.AVOIDED, node_name="n1"),)
    assert stage.begin(wants_2g("b")) == NOTHING


def test_gpu_backoff_grows_and_resets_after_a_success(stage: Stage) -> None:
    pauses = []
    for name in ("a", "b"):
        stage.begin(wants_2g(name))
        stage.answer(failed(stage.sent["n1"][0].deadline))
        stage.see(ev.PodDeleted(f"team-{name}"))
        pauses.append(stage.said[-1][1].rpartition("for ")[2])
        stage.answer()
        stage.tick(100)
    stage.begin(wants_2g("c"))
    stage.answer(ready())
    stage.see(advertised(1))
    stage.see(ev.PodDeleted("team-c"))
    stage.answer()
    stage.begin(wants_2g("d"))
    stage.answer(failed(stage.sent["n1"][0].deadline))
    pauses.append(stage.said[-1][1].rpartition("for ")[2])

    assert pauses == ["30 s", "60 s", "30 s"]


def test_answer_to_an_earlier_request_is_ignored(stage: Stage) -> None:
    stage.begin(wants_2g())

    assert stage.answer(failed("2027-01-15T07:00:00Z")) == NOTHING


LATE = [
    pytest.param([], "no status of 2g.20gb@0/4", id="silence"),
    pytest.param(
        [MigInstance(TWO, PartitionState.PENDING)], "2g.20gb@0/4 was not ready", id="still-pending"
    ),
    pytest.param(
        [ready()], "the instances exist but the node does not advertise them", id="not-advertised"
    ),
]


@pytest.mark.parametrize(("answers", "words"), LATE)
def test_partition_timeout_pauses_the_whole_node(answers: list[MigInstance], words: str) -> None:
    stage = Stage(dynamic(gpus=2))
    stage.begin(wants_2g())
    stage.answer(*answers)

    assert stage.tick(59) == NOTHING
    effects = stage.tick(1)

    assert DropPlacement("team-a") in effects
    assert stage.said[-1] == (
        "PartitionFailed",
        f"n1: {words} within 60 s; backoff of all its GPUs for 30 s",
    )
    assert stage.counted == ["timeout"]
    assert codes(stage.cluster, wants_2g("b")) == {REASON_CODES["GPU_BACKOFF"]}


def test_failed_partition_write_is_retried_and_then_reported(stage: Stage) -> None:
    stage.begin(wants_2g())
    stage.sent.clear()
    stage.see(ev.PartitionsWriteFailed("n1", "admission webhook says no"))

    stage.tick(1)
    assert "n1" in stage.sent
    stage.tick(60)

    assert "admission webhook says no" in stage.said[-1][1]


GONE = [
    pytest.param(ev.PodDeleted("team-a"), id="deleted"),
    pytest.param(ev.PodUpdated(wants_2g(node="n9")), id="bound-by-another-scheduler"),
    pytest.param(ev.PodUpdated(wants_2g(deleting=True)), id="being-deleted"),
    pytest.param(ev.NodeDeleted("n1"), id="its-node-is-gone"),
]


@pytest.mark.parametrize("event", GONE)
def test_deleted_pod_releases_its_partition_request(stage: Stage, event: ev.Event) -> None:
    stage.begin(wants_2g())

    assert DropPlacement("team-a") in stage.see(event)
    assert "team-a" not in stage.cluster.assumed
    assert stage.tick(100) == NOTHING


def test_former_leader_releases_all_partition_requests(stage: Stage) -> None:
    """The next leader decides again; the pod waits as before."""
    stage.begin(wants_2g())

    effects = stage.tick(1, leads=False)

    assert DropPlacement("team-a") in effects
    assert ev.PodPending(stage.cluster.pods["team-a"]) in effects
    assert stage.cluster.assumed == {}


def test_events_cost_nothing_without_pending_partitions(stage: Stage) -> None:
    assert stage.see(advertised(3)) is NOTHING
